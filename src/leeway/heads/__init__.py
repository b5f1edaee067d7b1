"""Making a draft head for a model that has none, from nothing but the model itself.

prompts → the target's own answers with its hidden states (`capture`, `generate`) → training
(`network`, `loss`, `train`) → a held-out report (`evaluate`) → a head file (`export`).
"""
