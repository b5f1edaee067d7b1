"""Report: charts of what was measured; knows numbers and labels, not where they came from."""
