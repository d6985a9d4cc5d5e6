"""What FSDP2 gathers together for a module: the parameters of one call of fully_shard(), which takes several modules as well, without
those that have a group of their own. PyTorch keeps them in the module's state, in other places from version to version."""


def param_groups(module):
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    return [group for group in groups if group is not None]


def parameters_of(module):
    """The sharded parameters."""
    return [each.sharded_param for group in param_groups(module) for each in group.fsdp_params]


def all_frozen(module):
    parameters = parameters_of(module)
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)
