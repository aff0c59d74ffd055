"""The kernel is called once, at import, and never again.

expect: not_exercised
says: PyTorch did the work
defence: calls of one measured pass are counted
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <Python.h>
static PyObject* one(PyObject*, PyObject*) { return PyLong_FromLong(1); }
static PyMethodDef methods[] = {{"one", one, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "m", nullptr, -1, methods};
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
PyMODINIT_FUNC GLUE(PyInit_, TORCH_EXTENSION_NAME)(void) { return PyModule_Create(&definition); }
"""
extension = load_inline(name="unused", cpp_sources=SOURCE, no_implicit_headers=True)
extension.one()


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(torch.exp(torch.sin(x))).mean(dim=1)
