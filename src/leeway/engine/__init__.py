"""Engine: one loop of schedule, draft, verify, judge, commit, emit; plain decoding included."""
