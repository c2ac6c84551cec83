"""Front ends: models of other frameworks as graphs (design §11)."""
