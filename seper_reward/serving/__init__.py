"""The scorer behind HTTP: one worker that owns the models, and an app for many clients."""
