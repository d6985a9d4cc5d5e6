"""Trains the model of peers.transformer as zeropp trains its own, on one device in plain PyTorch.

Master weights, sums of gradients and moments are fp32. The model has copies of the masters, in the type of zeropp's
activations: forward and backward compute in it, as by model.bfloat16(), with norms, softmax and sums in fp32 inside
of PyTorch's kernels. A gradient of weights leaves backward in that type, and is added up in fp32 over micro-batches.
Attention is scaled_dot_product_attention, the update torch.optim.AdamW(fused=True). Nothing in a step waits for the
device.
"""

import time

import torch

from zpp_validate.curves import initial_weights
from zpp_validate.forms.transformer import Shape
from zpp_validate.peers import transformer


class Trainer:
    def __init__(self, trained, vocabulary, device, compiled):
        """`trained`: a trained.Trained."""
        config, self.shape = trained.config, Shape.of(trained.config["zeropp"]["model"], vocabulary)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        self.micro, self.clip = config["train_micro_batch_size_per_gpu"], config.get("gradient_clipping", 0.0)
        self.micro_steps = config["train_batch_size"] // self.micro
        self.rounded = torch.bfloat16 if trained.compute == "bf16" else torch.float32
        self.device, activations = device, torch.bfloat16 if trained.activations == "bf16" else torch.float32
        with torch.device(device):
            self.model = transformer.Transformer(self.shape).to(activations)
        self.loss = torch.compile(self.batch_loss, fullgraph=True) if compiled else self.batch_loss
        self.copies = list(self.model.parameters())
        self.masters = {name: torch.zeros_like(copy, dtype=torch.float32).requires_grad_()
                        for name, copy in self.model.named_parameters()}
        self.sums = [torch.zeros_like(master) for master in self.masters.values()]
        self.adam = config["optimizer"]["params"]
        self.decays_all = config["zeropp"].get("decayed_parameters") == "all"

    def batch_loss(self, rows):
        return transformer.cross_entropy(self.model(rows[:, :-1]), rows[:, 1:])

    def begin(self, seed):
        initial_weights.fill(self.masters, self.shape, seed)
        groups = {True: [], False: []}
        for master, total in zip(self.masters.values(), self.sums):
            groups[self.decays_all or master.ndim > 1].append(master)
            master.grad = total
        decay = self.adam.get("weight_decay", 0.0)
        self.optimizer = torch.optim.AdamW([{"params": masters, "weight_decay": decay if decayed else 0.0}
                                            for decayed, masters in groups.items()],
                                           betas=tuple(self.adam["betas"]), eps=self.adam["eps"], fused=True)
        self.copy_masters()

    @torch.no_grad()
    def copy_masters(self):
        torch._foreach_copy_(self.copies, [master.to(self.rounded) for master in self.masters.values()])

    def step(self, rows, rate):
        """The loss, on the device. `rows`: all sequences of the step."""
        torch._foreach_zero_(self.sums)
        total = torch.zeros((), device=self.device)
        for micro in rows.long().split(self.micro):
            loss = self.loss(micro)
            loss.backward()
            with torch.no_grad():
                total += loss
                torch._foreach_add_(self.sums, [copy.grad for copy in self.copies])
            self.model.zero_grad(set_to_none=True)
        torch._foreach_mul_(self.sums, self.scale() / self.micro_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.copy_masters()
        return total / self.micro_steps

    def scale(self):
        """Factor on the mean gradient that clips it."""
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self.sums))) / self.micro_steps
        return torch.clamp(self.clip / norm, max=1.0) if self.clip > 0 else torch.ones_like(norm)

    @torch.no_grad()
    def evaluate(self, rows):
        return torch.stack([self.loss(micro).detach()
                            for micro in rows.long().split(self.micro)]).double().mean().item()

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def on_device(self, rows):
        """A whole run's rows at once."""
        rows = torch.from_numpy(rows)
        return rows.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else rows

    def warm_up(self, rows, held_out):
        """Compiles what run() runs."""
        self.begin(0)
        self.step(rows[0], 0.0)
        self.evaluate(held_out[:self.micro])
        self.synchronize()

    def run(self, seed, rows, held_out, rates, interval):
        """Losses of the steps, [steps done, held-out loss] every `interval` steps, and seconds of the steps and of all
        together."""
        start = time.perf_counter()
        self.begin(seed)
        losses, evaluations, seconds = [], [[0, self.evaluate(held_out)]], 0.0
        for first in range(0, len(rates), interval):
            begin = time.perf_counter()
            losses += [self.step(rows[step], rates[step]) for step in range(first, min(first + interval, len(rates)))]
            self.synchronize()
            seconds += time.perf_counter() - begin
            evaluations.append([len(losses), self.evaluate(held_out)])
        return {"losses": torch.stack(losses).tolist(), "evaluations": evaluations, "step_seconds": seconds,
                "seconds": time.perf_counter() - start}
