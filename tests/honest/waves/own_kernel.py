"""A kernel of its own is built and called in every call, beside library calls.

expect: pass
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <Python.h>
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
static PyObject* copy(PyObject*, PyObject* args) {
  unsigned long long in, out;
  Py_ssize_t n;
  if (!PyArg_ParseTuple(args, "KKn", &in, &out, &n)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) ((float*)out)[i] = ((float*)in)[i];
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"copy", copy, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "m", nullptr, -1, methods};
PyMODINIT_FUNC GLUE(PyInit_, TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&definition); }
"""
extension = load_inline(name="copying", cpp_sources=SOURCE, no_implicit_headers=True)


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        extension.copy(x.data_ptr(), out.data_ptr(), x.numel())
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Copy.apply(torch.tanh(torch.exp(torch.sin(x))).mean(dim=1))
