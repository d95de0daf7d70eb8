"""The paper's sections, each with what it computes, its tables, claims and figures; a module with a ``run`` is a step.

Read ``keys`` (section 3), ``values`` (section 4), ``layers`` (section 5), then ``beyond``; within each, in the order
that its docstring gives: what is computed, from tensors to tables; what the tables' columns are; what is measured from
them; what the paper claims of that; and how it is drawn. ``baselines`` measures all claims without the effect.
"""
