# SPDX-License-Identifier: Apache-2.0
"""Calls that torch_npu makes of operators of aclnn, compared with what the CPU gives.

Each line of CASES is an expression over tensors that `tensors` makes, once on the CPU and once on
the device. Run with ANYOP_NPU=aclnn it prints, as JSON, what went wrong and which names of aclnn
were called.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

CASES = """
x+y; x+1; torch.add(x,y,alpha=3); torch.add(x,2,alpha=3); x-y; x-1; torch.sub(x,y,alpha=2); 1-x
torch.rsub(x,y,alpha=2); x*y; x*2; x/y; x/2
z.add_(y); z.add_(1); z.sub_(y); z.sub_(1); z.mul_(y); z.mul_(2); z.div_(y); z.div_(2)
torch.div(x,y,rounding_mode="floor"); torch.div(x,2,rounding_mode="trunc"); x//y; x//2
z.div_(y,rounding_mode="floor"); torch.remainder(x,y); torch.remainder(x,2); torch.remainder(2,p)
torch.fmod(x,y); torch.fmod(x,2)
x==z; x==1; x!=z; x!=1; x>y; x>1; x<y; x<1; x>=y; x>=1; x<=y; x<=1
torch.equal(x,z); torch.equal(x,y)
torch.logical_and(b,c); torch.logical_or(b,c); torch.logical_xor(b,c); torch.logical_not(b)
torch.bitwise_and(i,j); torch.bitwise_and(i,1); torch.bitwise_or(i,j); torch.bitwise_or(i,3)
torch.bitwise_xor(i,j); torch.bitwise_xor(i,1); torch.bitwise_not(i); i<<1; i>>1; i<<i
torch.gcd(i,j)
torch.maximum(x,y); torch.minimum(x,y); torch.pow(p,y); torch.pow(x,2); torch.pow(2,x); z.pow_(2)
torch.atan2(x,y); torch.lerp(x,y,0.3); torch.lerp(x,y,p); z.lerp_(y,0.3)
torch.addcmul(x,y,p,value=2); torch.addcdiv(x,y,p,value=2); z.addcmul_(y,p,value=3)
z.addcdiv_(y,p,value=3)
torch.clamp(x,-0.5,0.5); torch.clamp(x,min=0); torch.clamp(x,max=0); torch.clamp(x,-p,p)
torch.clamp(x,min=y); torch.clamp(x,max=y)
torch.where(b,x,y); z.masked_fill_(b,1.); z.masked_fill_(b,y[0,0]); z.masked_scatter_(b,y)
torch.abs(x); torch.acos(u); torch.acosh(p+1); torch.asin(u); torch.asinh(x); torch.atan(x)
torch.atanh(u); torch.ceil(x); torch.cos(x); torch.cosh(x); torch.erf(x); torch.erfc(x)
torch.erfinv(u); torch.exp(x); torch.exp2(x); torch.expm1(x); torch.floor(x); torch.frac(x)
torch.log(p); torch.log10(p); torch.log1p(p); torch.log2(p); torch.neg(x); torch.reciprocal(p)
torch.relu(x); torch.round(x); torch.round(x,decimals=2); torch.rsqrt(p); torch.sigmoid(x)
torch.sign(x); torch.signbit(x); torch.sin(x); torch.sinc(x); torch.sinh(x); torch.sqrt(p)
torch.tan(x); torch.tanh(x); torch.trunc(x); torch.angle(x)
u.acos_(); (p+1).acosh_(); u.asin_(); z.asinh_(); z.atan_(); u.atanh_(); z.ceil_(); z.cos_()
z.cosh_(); z.erf_(); z.erfc_(); u.erfinv_(); z.exp_(); z.exp2_(); z.expm1_(); z.floor_(); z.frac_()
q.log_(); q.log10_(); q.log1p_(); q.log2_(); q.reciprocal_(); z.relu_(); q.rsqrt_(); z.sigmoid_()
z.sin_(); z.sinc_(); z.sinh_(); q.sqrt_(); z.tan_(); z.tanh_(); c.logical_not_()
torch.isfinite(n); torch.isposinf(n); torch.isneginf(n); torch.isnan(n); torch.isinf(n)
torch.nan_to_num(n,1.5,2.5,-2.5); torch.isclose(x,z+1e-9); torch.logit(r); torch.logit(r,0.3)
torch.logaddexp(x,y); torch.logaddexp2(x,y); torch.xlogy(x,p); torch.xlogy(x,2)
torch.polar(p,x); torch.complex(x,y)
F.silu(x); F.gelu(x); F.leaky_relu(x,0.2); F.elu(x,0.7); F.celu(x,0.7); F.hardswish(x)
F.hardsigmoid(x); F.hardtanh(x,-0.5,0.5); F.softplus(x,2.,3.); F.mish(x); F.glu(w)
F.threshold(x,0.1,1); F.logsigmoid(x); F.softshrink(x,0.3); F.hardshrink(x,0.3)
F.prelu(x,y[0,:1]); F.softmax(x,1); F.softmax(x,0); F.log_softmax(x,1)
F.mish(z,inplace=True); F.hardswish(z,inplace=True); F.hardsigmoid(z,inplace=True)
torch._foreach_add([x,y],1.); torch._foreach_add([x],[y],alpha=2); torch._foreach_sub([x],[y])
torch._foreach_mul([x,y],2.); torch._foreach_mul([x],[y]); torch._foreach_div([x],[y])
torch._foreach_sub([x],1.); torch._foreach_div([x],2.); torch._foreach_maximum([x],[y])
torch._foreach_minimum([x],[y]); torch._foreach_maximum([x],0.1); torch._foreach_minimum([x],0.1)
torch._foreach_exp([x]); torch._foreach_sqrt([p]); torch._foreach_norm([x])
torch._foreach_abs([x]); torch._foreach_neg([x]); torch._foreach_cos([x]); torch._foreach_sin([x])
torch._foreach_tanh([x]); torch._foreach_reciprocal([p]); torch._foreach_sigmoid([x])
torch._foreach_erf([x]); torch._foreach_erfc([x]); torch._foreach_log([p]); torch._foreach_log2([p])
torch._foreach_log10([p]); torch._foreach_log1p([p]); torch._foreach_expm1([x])
torch._foreach_acos([u]); torch._foreach_asin([u]); torch._foreach_atan([x])
torch._foreach_tan([x])
torch._foreach_cosh([x]); torch._foreach_sinh([x]); torch._foreach_sign([x])
torch._foreach_addcdiv([x],[y],[p],2.); torch._foreach_addcmul([x],[y],[p],2.)
torch._foreach_lerp([x],[y],0.3)
z.zero_(); z.fill_(2.5); z.fill_(y[0,0]); torch.ones_like(x); torch.zeros_like(x)
m.fill_diagonal_(3.); z.copy_(y); x.to(torch.float16); x.t().contiguous(); h.to(torch.float32)
torch.cat([x,y],1); torch.cat([x,y],0); torch.stack([x,y],1); torch.split(x,1); x.repeat(2,2)
torch.repeat_interleave(x,2); torch.repeat_interleave(x,2,1); torch.flip(x,[1]); torch.roll(x,1,1)
torch.tril(m); torch.triu(m,1); m.tril_(); m.triu_(); F.pad(x,(1,2),value=0.5)
F.pad(im,(1,2,1,1),mode="reflect"); F.pad(im,(1,2,1,1),mode="replicate")
F.pad(im[0],(1,2),mode="reflect"); F.pad(im[0],(1,2),mode="replicate")
torch.gather(x,1,k); torch.index_select(x,1,l); torch.take(x,l); F.embedding(l,m)
torch.scatter(x,1,k,y); torch.scatter(x,1,k,1.5); z.scatter_(1,k,y); torch.scatter_add(x,1,k,y)
torch.index_add(x,1,l,y,alpha=2); z.index_copy_(1,l,y); z.index_fill_(1,l,1.5)
x[:,l]; m[l]; m[l,l]; m.index_put_((l,),x[0]); m.index_put_((l,),x[0],accumulate=True)
torch.masked_select(x,b); torch.nonzero(b); x[b]
torch.searchsorted(torch.sort(x)[0],y); torch.bucketize(x,t); torch.bucketize(x,t,right=True)
torch.sum(x); torch.sum(x,1); torch.sum(i,1); torch.sum(x,1,True); torch.mean(x)
torch.mean(x,1,True)
torch.prod(x); torch.prod(x,1); torch.amax(x,1); torch.amin(x,1); x.max(); x.min(); x.max(1)
x.min(1); torch.aminmax(x,dim=1); torch.argmax(x,1); torch.argmin(x,1); b.all(); b.all(1); b.any()
b.any(1); torch.std(x,1); torch.var(x,1); torch.var_mean(x,1); torch.std_mean(x,1)
torch.linalg.vector_norm(x,2,1); torch.norm(x); torch.logsumexp(x,1); torch.nansum(n)
torch.median(x); torch.median(x,1); torch.kthvalue(x,2,1); torch.trace(m)
torch.cumsum(x,1); torch.cumprod(x,1); torch.cummax(x,1); torch.cummin(x,1); torch.sort(x,1)
torch.argsort(x,1,True); torch.topk(x,2); torch.topk(x,2,0,False)
torch.mm(x,m); torch.matmul(x,m); torch.bmm(v,v.transpose(1,2)); torch.addmm(y,x,m,beta=2,alpha=3)
torch.baddbmm(v@v.transpose(1,2),v,v.transpose(1,2),beta=2,alpha=3)
torch.matmul(v,torch.ones_like(v[0]).t())
torch.addbmm(m[:2,:2],v,v.transpose(1,2),beta=2,alpha=3) if v.size(1)==2 else x
torch.mv(x,m[0]); torch.dot(x[0],y[0]); torch.addmv(x[:,0],y,m[0],beta=2,alpha=3)
torch.addr(m,x[0],y[0],beta=2,alpha=3); F.linear(x,m,x[0]); torch.cross(m,m.t().contiguous(),dim=0)
F.conv2d(im,ker); F.conv2d(im,ker,padding=1,stride=2); F.avg_pool2d(im,2)
F.adaptive_avg_pool2d(im,2)
F.interpolate(im,scale_factor=2); F.interpolate(im,size=[7,7],mode="bilinear"); F.unfold(im,2)
F.grid_sample(im,grid,align_corners=False); F.layer_norm(x,(3,),p[0],y[0]); F.layer_norm(im,(6,6))
F.group_norm(im,2,one[:4],one[4:8])
F.batch_norm(im,one[:4].clone(),one[4:8].clone(),one[:4],one[4:8],True)
F.batch_norm(im,one[:4],one[4:8],one[:4],one[4:8]); F.mse_loss(x,y)
F.mse_loss(x,y,reduction="none")
F.l1_loss(x,y); F.smooth_l1_loss(x,y,beta=0.5); F.binary_cross_entropy(r,r.flip(0))
F.binary_cross_entropy_with_logits(x,r); F.kl_div(x,r); F.kl_div(x,x,log_target=True)
torch.eye(3,device=d); torch.arange(1,9,2,device=d); torch.linspace(0,1,5,device=d)
torch.full((3,),2.,device=d)
"""
DTYPES = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}
# What torch's CPU has no kernel for, or rounds otherwise than one rounding of the exact result.
ONLY_FLOAT32 = ("polar", "complex", "erfinv", "histc", "cross", "interpolate", "grid", "batch_norm",
                "sinc", "logaddexp", "kthvalue", "xlogy", "log_target", "fmod", "remainder", "//",
                "rounding", "acosh", "gelu", "prod", "baddbmm", "addbmm", "logit",
                "norm")  # fmt: skip


def tensors(device: str, dtype: Any) -> dict[str, Any]:
    """The names that cases use, made anew for each."""
    import torch

    g = torch.Generator().manual_seed(3)
    f: dict[str, Any] = {name: torch.randn(2, 3, generator=g) for name in "xyp"}
    f["p"] = f["p"].abs() + 0.5
    f |= {"z": f["x"].clone(), "q": f["p"].clone(), "u": torch.tanh(f["y"]) * 0.9}
    f |= {"r": torch.sigmoid(f["x"]), "m": torch.randn(3, 3, generator=g)}
    f |= {"w": torch.randn(2, 6, generator=g), "v": torch.randn(2, 2, 3, generator=g)}
    f |= {"t": torch.tensor([-0.5, 0.1, 0.9]), "n": torch.tensor([[1.0, float("nan")], [2, -1]])}
    f["n"][1, 0] = float("inf")
    f |= {"im": torch.randn(2, 4, 6, 6, generator=g), "ker": torch.randn(3, 4, 3, 3, generator=g)}
    f |= {"grid": torch.rand(2, 3, 3, 2, generator=g) * 2 - 1, "one": torch.rand(8, generator=g)}
    made = {name: value.to(dtype) for name, value in f.items()}
    made["h"] = f["x"].to(torch.float16)
    made |= {"b": f["x"] > 0, "c": f["y"] > 0, "l": torch.tensor([2, 0, 1])}
    made |= {"i": torch.tensor([[1, 2, 3], [4, 5, 6]]), "j": torch.tensor([[3, 2, 1], [7, 8, 9]])}
    made["k"] = torch.tensor([[2, 0, 1], [0, 1, 2]])
    return {name: value.to(device) for name, value in made.items()} | {"d": device}


def evaluate(case: str, device: str, dtype: Any) -> list[Any]:
    """The result, and what it has changed."""
    import torch
    import torch.nn.functional as F
    from torch.utils import _pytree as pytree

    names = tensors(device, dtype)
    result = eval(case, {"torch": torch, "F": F}, names)
    leaves = pytree.tree_leaves([result, [names[name] for name in sorted(names)]])
    return [leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def wrong(case: str, name: str, tolerance: float) -> str:
    """What differs, or ""."""
    import torch

    dtype = getattr(torch, name)
    want = evaluate(case, "cpu", dtype)
    try:
        got = evaluate(case, "npu", dtype)
        for a, b in zip(got, want, strict=True):
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(
                    a, b, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
                )
    except Exception as error:
        return f"{case} of {name}: {type(error).__name__} {' '.join(str(error).split())[:300]}"
    return ""


def cases() -> list[str]:
    """All expressions."""
    return [case.strip() for line in CASES.splitlines() for case in line.split(";") if case.strip()]


def main() -> None:
    import torch
    import torch_npu  # noqa: F401
    from anyop.npu import operators

    warnings.simplefilter("ignore")
    found = []
    for case in sys.argv[1:] or cases():
        for name, tolerance in DTYPES.items():
            if name != "float32" and any(word in case for word in ONLY_FLOAT32):
                continue
            found.append(wrong(case, name, tolerance))
    torch.npu.synchronize()
    print(json.dumps({"wrong": [text for text in found if text], "called": operators.called()}))


if __name__ == "__main__":
    main()
