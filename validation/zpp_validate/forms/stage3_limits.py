"""Which units stage 3 does not gather for each use, by the rules of lib/trace/README.md: those that persist, and those
that are kept from one use to the next. Shares nothing with the library."""


def persistent_units(parameters, threshold, model_threshold):
    """Units that persist, of units with these numbers of parameters: small ones, in order, as long as their sum is
    within the model's threshold."""
    chosen, total = set(), 0
    for unit, count in enumerate(parameters):
        if count <= threshold and total + count <= model_threshold:
            chosen.add(unit)
            total += count
    return chosen


def uses_of_step(layers, micro_steps):
    """[(micro-step, phase, units), ...] in order."""
    return [(micro, phase, units) for micro in range(micro_steps)
            for phase, order in (("forward", layers), ("backward", layers[::-1])) for units in order]


def gathers(uses, elements, distance, limit):
    """For each use, whether each of its units is gathered. `uses`: lists of units, in order; `elements`: of every unit,
    0 of one that persists."""
    gathered = [[elements[unit] > 0 for unit in units] for units in uses]
    held = []  # [(use until which, elements)]
    for index, units in enumerate(uses):
        held = [(until, count) for until, count in held if until > index]
        for unit in units:
            between = 0
            for later in range(index + 1, len(uses)):
                if between >= distance or elements[unit] == 0:
                    break
                if unit in uses[later]:
                    if sum(count for _, count in held) + elements[unit] <= limit:
                        held.append((later, elements[unit]))
                        gathered[later][uses[later].index(unit)] = False
                    break
                between += sum(elements[other] for other in uses[later])
    return gathered
