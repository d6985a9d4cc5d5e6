"""Runs a script in which TRL's SFTTrainer says after its training how many weights have other bits than before it."""

import os
import runpy
import sys

import torch
import trl

train = trl.SFTTrainer.train


def compare(self, *arguments, **options):
    before = {name: (each.requires_grad, each.detach().clone()) for name, each in self.model.named_parameters()}
    result = train(self, *arguments, **options)
    after = self.model.state_dict()
    for kind, is_trained in (("frozen", False), ("trained", True)):
        names = [name for name, (requires_grad, _) in before.items() if requires_grad == is_trained]
        changed = [name for name in names if not torch.equal(before[name][1].view(torch.uint8),
                                                             after[name].full_tensor().view(torch.uint8))]
        print(f"{kind}: {len(changed)} of {len(names)} weights have changed")
    return result


trl.SFTTrainer.train = compare
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
