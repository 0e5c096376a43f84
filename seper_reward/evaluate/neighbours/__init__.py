"""Other labels and votes beside ΔSePer: eRAG, ITEM, EoR."""
