"""Extensions of the daemon by its user: commands, skills, hooks and tool servers, in files and settings.

:mod:`sidecar.extensions.finding` describes their places, and the limits of a stranger's folder.
"""
