"""Which operand of a product with weights stays in the array: the weights, or the activations.

    y[m, n] = sum x[m, k] · W[k, n]      m fills rows of the array and n its columns, or the other way around

Arithmetic alone finds what could gain (:mod:`.array_fill`); the model of tiling judges that (:mod:`.better_form`).
"""
