"""Grammar: which tokens may come next, so that an answer has the form that was asked for."""
