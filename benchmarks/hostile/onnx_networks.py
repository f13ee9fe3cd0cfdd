"""Small right networks, each with other operators, from which hostile files are made."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper, parser

_HEAD = '<ir_version: 8, opset_import: ["": 17]> '

NETWORKS: dict[str, str] = {
    "convolutions": """g (float[N, 3, 9, 9] x, float[8, 3, 3, 3] w_a, float[8] w_s, float[8] w_b, float[8] w_m,
            float[8] w_v, float[8, 2, 3, 3] w_c, float[8] w_d, float[8, 5] w_e, float[5] w_f) => (float[N, 5] y) {
        a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, w_a)
        b = BatchNormalization <epsilon = 0.001> (a, w_s, w_b, w_m, w_v)
        c = Relu (b)
        d = MaxPool <kernel_shape = [2, 2], strides = [1, 1]> (c)
        e = Conv <group = 4, dilations = [1, 1], auto_pad = "SAME_UPPER"> (d, w_c, w_d)
        f = Add (d, e)
        h = GlobalAveragePool (f)
        i = Flatten <axis = 1> (h)
        j = Gemm <alpha = 0.5, transB = 0> (i, w_e, w_f)
        y = Softmax <axis = -1> (j)
    }""",
    "attention": """g (float[N, 6, 8] x, float[8, 8] w_q, float[8, 8] w_k, float[8, 8] w_v, float[8] w_s,
            float[8] w_b) => (float[N, 6, 8] y) {
        q = MatMul (x, w_q)
        k = MatMul (x, w_k)
        v = MatMul (x, w_v)
        shape = Constant <value = int64[4] {0, 6, 2, 4}> ()
        q4 = Reshape (q, shape)
        k4 = Reshape (k, shape)
        v4 = Reshape (v, shape)
        qt = Transpose <perm = [0, 2, 1, 3]> (q4)
        kt = Transpose <perm = [0, 2, 3, 1]> (k4)
        vt = Transpose <perm = [0, 2, 1, 3]> (v4)
        p = MatMul (qt, kt)
        scale = Constant <value = float {0.5}> ()
        ps = Mul (p, scale)
        s = Softmax <axis = 3> (ps)
        o = MatMul (s, vt)
        ot = Transpose <perm = [0, 2, 1, 3]> (o)
        back = Constant <value = int64[3] {0, 6, 8}> ()
        of = Reshape (ot, back)
        r = Add (x, of)
        y = LayerNormalization <axis = -1, epsilon = 0.00001> (r, w_s, w_b)
    }""",
    "embedding": """g (int64[N, 5] ids, float[11, 6] w_t, float[6, 4] w_p) => (float[N, 5, 4] y) {
        e = Gather <axis = 0> (w_t, ids)
        p = MatMul (e, w_p)
        four = Constant <value = int64 {4}> ()
        m = Less (ids, four)
        ax = Constant <value = int64[1] {2}> ()
        mu = Unsqueeze (m, ax)
        low = Constant <value = float {-3.4e38}> ()
        q = Where (mu, p, low)
        y = Softmax (q)
    }""",
    "shapes": """g (float[N, 4, 6] x) => (float[N, 2, 12] y, int64[3] s) {
        s = Shape (x)
        zero = Constant <value = int64[1] {0}> ()
        n = Gather <axis = 0> (s, zero)
        rest = Constant <value = int64[2] {2, -1}> ()
        to = Concat <axis = 0> (n, rest)
        r = Reshape (x, to)
        full = Shape (r)
        one = ConstantOfShape <value = float[1] {1.5}> (full)
        y = Mul (r, one)
    }""",
    "movement": """g (float[2, 6, 5] x, float[2, 6, 5] z) => (float[2, 3, 5] y, float[2, 3, 5] u) {
        c = Concat <axis = 1> (x, z)
        b = Constant <value = int64[1] {1}> ()
        e = Constant <value = int64[1] {10}> ()
        a = Constant <value = int64[1] {1}> ()
        t = Constant <value = int64[1] {3}> ()
        s = Slice (c, b, e, a, t)
        p = Constant <value = int64[6] {0, 1, 0, 0, 2, 0}> ()
        v = Constant <value = float {0.5}> ()
        pad = Pad <mode = "constant"> (s, p, v)
        pt = Transpose <perm = [1, 0, 2]> (pad)
        rep = Constant <value = int64[3] {1, 1, 1}> ()
        tile = Tile (pt, rep)
        tb = Transpose <perm = [1, 0, 2]> (tile)
        sp = Constant <value = int64[2] {3, 3}> ()
        k, y = Split <axis = 1> (tb, sp)
        big = Constant <value = int64[3] {2, 3, 5}> ()
        u = Expand (k, big)
    }""",
    "reductions": """g (float[3, 8] x) => (float[3, 1] a, float[8] b, int64[3] i, float[3, 2] v, float[3, 8] c) {
        a = ReduceMean <axes = [1], keepdims = 1> (x)
        b = ReduceMax <axes = [0], keepdims = 0> (x)
        i = ArgMax <axis = 1, keepdims = 0> (x)
        k = Constant <value = int64[1] {2}> ()
        v, j = TopK <axis = 1, largest = 1> (x, k)
        ax = Constant <value = int64 {1}> ()
        c = CumSum <exclusive = 0> (x, ax)
    }""",
    "integers": """g (int64[4, 3] x, int32[3] z) => (int64[4, 3] y, bool[4, 3] m, float[4, 3] f) {
        w = Cast <to = 7> (z)
        a = Add (x, w)
        three = Constant <value = int64 {3}> ()
        d = Div (a, three)
        r = Mod <fmod = 0> (a, three)
        m = Equal (d, r)
        y = Where (m, d, r)
        f = Cast <to = 1> (y)
    }""",
    "resizing": """g (float[1, 4, 5, 5] x, float[4, 2, 3, 3] w_t) => (float[1, 1, 20, 20] y) {
        roi = Constant <value = float[0] {}> ()
        scales = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
        u = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">
            (x, roi, scales)
        t = ConvTranspose <strides = [1, 1], pads = [1, 1, 1, 1], group = 2> (u, w_t)
        y = DepthToSpace <blocksize = 2, mode = "CRD"> (t)
    }""",
    "functions": """g (float[3, 7] x, float[7] w_s) => (float[3, 7] y) {
        lo = Constant <value = float {-1.0}> ()
        hi = Constant <value = float {2.0}> ()
        a = Clip (x, lo, hi)
        b = LeakyRelu <alpha = 0.1> (a)
        c = Erf (b)
        d = Exp (c)
        e = Sqrt (d)
        two = Constant <value = float {2.0}> ()
        f = Pow (e, two)
        h = Sigmoid (f)
        i = Tanh (h)
        j = PRelu (i, w_s)
        k = HardSwish (j)
        l = Div (k, d)
        y = Sub (l, x)
    }""",
    "scattering": """g (float[4, 5] x, int64[2, 5] at, float[2, 5] w_u) => (float[4, 5] y, float[2, 5] p, float[2] n) {
        y = ScatterElements <axis = 0> (x, at, w_u)
        p = GatherElements <axis = 0> (x, at)
        pairs = Constant <value = int64[2, 2] {0, 1, 3, -1}> ()
        n = GatherND (x, pairs)
    }""",
    "quantised": """g (float[2, 6] x, float[6, 4] w_m) => (float[2, 4] y) {
        s = Constant <value = float {0.05}> ()
        z = Constant <value = uint8 {128}> ()
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        y = MatMul (d, w_m)
    }""",
    "recurrent": """g (float[3, 1, 4] x, float[1, 20, 4] w_i, float[1, 20, 5] w_r, float[1, 40] w_b)
            => (float[3, 1, 1, 5] y) {
        y, h, c = LSTM <hidden_size = 5> (x, w_i, w_r, w_b)
    }""",
}
"""In ONNX's text form; the inputs called ``w_…`` become weights."""


def build(name: str) -> onnx.ModelProto:
    """The network with seeded weights: same name, same bytes."""
    model = parser.parse_model(_HEAD + NETWORKS[name])
    rng = np.random.Generator(np.random.PCG64(list(name.encode())))
    graph = model.graph
    for value in [v for v in graph.input if v.name.startswith("w_")]:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = rng.standard_normal(shape).astype(np.float32)
        # A variance is positive.
        array = np.abs(array) + np.float32(0.5) if value.name == "w_v" and len(shape) == 1 else array
        graph.initializer.append(numpy_helper.from_array(array, value.name))
        graph.input.remove(value)
    for position, node in enumerate(graph.node):
        node.name = f"{node.op_type.lower()}.{position}"
    return model
