"""The room for text: readings and cuts of text that every room above shares, the engines included.

``shell`` reads command lines and ``touches`` tells the files that they use; ``calls`` has the effects of tool
calls and the files that they touch, and ``results`` reads their results. ``clip`` cuts texts,
``replies`` reads the replies of models, ``mend`` their arguments, ``typed`` tells the words of a user from a
paste, and ``visible`` shows hidden characters. Nothing here does I/O, waits or knows a session.
"""
