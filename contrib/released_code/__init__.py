"""Write a run's results in the formats of the authors' released code, for scripts written for it.

As in that code, layers and ranks count from 0, and a missing trigger has value 0 and the first sentence at position 0.
"""
