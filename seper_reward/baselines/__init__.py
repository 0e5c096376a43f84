"""Published methods next to ΔSePer that query a reader: workflows, compression, and ensembles of retrievers."""
