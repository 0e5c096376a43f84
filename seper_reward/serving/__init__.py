"""The scorer behind HTTP: one worker that owns the models, and an app that many clients ask."""
