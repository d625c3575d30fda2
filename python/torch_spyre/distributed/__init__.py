"""``torch.spyre.distributed``: the backend ``spyreccl`` of ``torch.distributed``.

Programs use ``torch.distributed`` itself; here is what only this backend knows.
"""
