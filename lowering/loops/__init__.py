"""Second stage: what TVM lowers an operator to, read for all tiles at once as perfect loop nests.

The passes, by the names that the field has for them, in the order in which nests go through them:

| pass | where | contract |
|---|---|---|
| LoopFission | :func:`.fission.fission` | Loops around several statements are unrolled, tile loops become the axis of the arrays, and what remains are nests with one store each, in order. |
| IfPromotion | :func:`.fission.fission` | A condition around statements becomes one of each nest inside, so that only stores are guarded. |
| LoopPartition | :func:`.partition.partition` | A condition on a single loop becomes the bounds of that loop, and tiles without points left do not run the nest; conditions on several loops stay. |
| LoopShift | :func:`.shift.shift` | Every loop starts at zero, and indices and conditions begin where the loop did. |
| PreProcess | :func:`.preprocess.preprocess` | A read that falls outside at all points becomes its fill, and a sum of nothing but zeros goes. |
| LoopCollapse | :func:`.axes.merged` | Loops over bytes that every access sees as one become one, and loops of one point go; loops in conditions stay apart. |
"""  # noqa: E501
