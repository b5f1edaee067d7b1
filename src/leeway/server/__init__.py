"""Server: HTTP only.

In: requests as OpenAI's and Anthropic's clients send them. Out: answers, streamed or whole, each
with its receipt. Knows the engine through its asynchronous façade alone (`service_protocol`);
decides nothing about tokens.
"""
