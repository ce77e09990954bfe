"""References and inputs for samplers of public packages: temperatures, penalties, choices, acceptance."""

import torch


def requests(rows):
    return torch.randperm(rows, dtype=torch.int32)


def tempered(logits, rows, temperature):
    chosen = temperature[rows.long()]
    logits.div_(torch.where(chosen == 0, 1.0, chosen)[:, None])


def tempered_inputs(seed, rows=256, vocabulary=128256):
    return [torch.randn(rows, vocabulary), requests(rows), torch.rand(rows)]


def at_least(logits, rows, least):
    limit = logits.amax(-1) + torch.log(least[rows.long()])
    logits.masked_fill_(logits < limit[:, None], -torch.inf)


def nans(logits):
    return logits.isnan().sum(-1, dtype=torch.int32)


def nans_inputs(seed, rows=256, vocabulary=128256):
    return [torch.randn(rows, vocabulary).log()]


def penalized(logits, presence, frequency, repetition, ids, counts, ends, longest):
    for row in range(logits.shape[0]):
        part = slice(*ends[row : row + 2].tolist())
        found = ids[part].long()
        old = logits[row, found]
        new = torch.where(old > 0, old / repetition[row], old * repetition[row])
        logits[row, found] = new - frequency[row] * counts[part] - presence[row]


def penalized_inputs(seed, rows=256, vocabulary=128256, used=500):
    ids = torch.cat([torch.randperm(vocabulary)[:used] for _ in range(rows)]).int()
    penalties = [torch.rand(rows), torch.rand(rows), 1 + torch.rand(rows)]
    counts, ends = torch.randint(1, 9, ids.shape, dtype=torch.int32), torch.arange(rows + 1, dtype=torch.int32) * used
    return [torch.randn(rows, vocabulary), *penalties, ids, counts, ends, used]


def requests_of_tokens(starts, out, mapped, tokens):
    index = torch.arange(tokens, device=starts.device)
    out[:tokens] = torch.searchsorted(starts[1:].contiguous(), index, right=True).clamp(max=len(starts) - 2)
    return out[:tokens]


def requests_of_tokens_inputs(seed, requests=256, tokens=8192):
    starts = torch.arange(requests + 1, dtype=torch.int32) * (tokens // requests)
    return [starts, torch.zeros(tokens, dtype=torch.int32), tokens, tokens]


def counted_tokens(rows, ids, prompt, filled, mask, counts, longest):
    mask[rows.long()], counts[rows.long()] = 0, 0
    for row in rows.tolist():
        for token in set(ids[row, : prompt[row]].tolist()):
            mask[row, token // 32] |= 1 << (token % 32) if token % 32 < 31 else -(2**31)
        counts[row] += torch.bincount(ids[row, prompt[row] : filled[row]], minlength=counts.shape[1])


def counted_tokens_inputs(seed, requests=64, vocabulary=32000, longest=4096):
    ids = torch.randint(vocabulary, (requests, longest), dtype=torch.int32)
    prompt = torch.randint(1, longest // 2, (requests,), dtype=torch.int32)
    mask = torch.zeros(requests, -(-vocabulary // 32), dtype=torch.int32)
    rows, counts = torch.randperm(requests, dtype=torch.int32), torch.zeros(requests, vocabulary, dtype=torch.int32)
    return [rows, ids, prompt, prompt + longest // 2, mask, counts, longest]
