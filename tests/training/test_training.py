"""After every step of an optimiser: at most k nonzeros, inside Γ, and no momentum of what was left out."""

import copy
import sys

import numpy as np
import pytest

import ellzero as ez

RNG = np.random.default_rng(0)
X, TRUE = RNG.standard_normal((60, 12)), np.r_[2.0, -1.5, 1.0, np.zeros(9)]
Y = X @ TRUE + 0.1 * RNG.standard_normal(60)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", reason="pip install ellzero[torch]")
    torch.manual_seed(0)
    return torch


def network(torch):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(12, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()


def flat(torch, model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()


def steps(torch, model, optimizer, n):
    data, target = torch.as_tensor(X), torch.as_tensor(Y)
    for _ in range(n):
        optimizer.zero_grad()
        ((model(data)[:, 0] - target) ** 2).mean().backward()
        optimizer.step()


OPTIMISERS = {
    "SGD": lambda torch, p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda torch, p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "Adam": lambda torch, p: torch.optim.Adam(p, lr=0.02),
    "AdamW": lambda torch, p: torch.optim.AdamW(p, lr=0.02, amsgrad=True),
    "RMSprop": lambda torch, p: torch.optim.RMSprop(p, lr=0.005, momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_k_and_caps_hold_after_every_step(torch, name):
    model = network(torch)
    optimizer = OPTIMISERS[name](torch, model.parameters())
    labels = [n for n, p in model.named_parameters() for _ in range(p.numel())]
    caps = ez.sets.GroupWise({"0.weight": ez.sets.L2Ball(1.5), "2.weight": ez.sets.LinfBall(0.6)}, labels)
    sparse = ez.SparseProjection(model, 15, caps, schedule=ez.training.Gradually(end=20)).attach(optimizer)
    assert sparse.labels == labels and len(labels) == 71
    before, losses = 71, []
    for t in range(1, 41):
        twin = copy.deepcopy(model)
        optimizer_of_twin = OPTIMISERS[name](torch, twin.parameters())
        optimizer_of_twin.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        steps(torch, twin, optimizer_of_twin, 1)  # the same step without a projection
        steps(torch, model, optimizer, 1)
        w = flat(torch, model)
        k = ez.training.Gradually(end=20)(t, 15, 71)
        assert sparse.k == k <= before and np.count_nonzero(w) <= k
        assert caps.violation(w) <= 1e-12
        np.testing.assert_allclose(w, ez.two_step_projection(flat(torch, twin), k, caps), atol=1e-12)
        before = k
        for parameter, mask in zip(model.parameters(), sparse.masks.values(), strict=True):
            assert not parameter.detach()[~mask].any()
            state = optimizer.state[parameter]
            for buffer in ("momentum_buffer", "exp_avg"):
                if state.get(buffer) is not None:
                    assert not state[buffer][~mask].any()
            if "exp_avg_sq" in state:
                assert state["exp_avg_sq"].any()  # how large gradients are is not forgotten
        losses.append(((model(torch.as_tensor(X))[:, 0] - torch.as_tensor(Y)) ** 2).mean().item())
    assert losses[-1] < 0.7 * np.mean(Y**2)
    sparse.detach()
    steps(torch, model, optimizer, 1)
    assert np.count_nonzero(flat(torch, model)) > 15


def test_a_plain_step_is_iterative_hard_thresholding(torch):
    """SGD on all rows with this hook is IHT-2SP."""
    model = torch.nn.Linear(12, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ball = ez.sets.L2Ball(2.0)
    ez.SparseProjection(model.parameters(), 3, ball).attach(optimizer)
    steps(torch, model, optimizer, 30)
    method = ez.Method(oracle=ez.FullGradient(), step=0.1, projection="two-step")
    res = ez.minimize(ez.risks.LeastSquares(X, Y), 3, ball, method, max_iter=30, tol=0, monitor="final")
    np.testing.assert_allclose(flat(torch, model), res.x, atol=1e-10)


def test_the_support_is_kept_between_choices(torch):
    model = torch.nn.Linear(12, 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.linspace(0.0, 0.3, 12))  # the last ones are the largest, and the first ones are right
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sparse = ez.SparseProjection(model, 3, ez.sets.LinfBall(0.4), every=5).attach(optimizer)
    seen = []
    for _ in range(20):
        steps(torch, model, optimizer, 1)
        seen.append(tuple(np.flatnonzero(np.concatenate([m.numpy().ravel() for m in sparse.masks.values()]))))
        assert np.abs(flat(torch, model)).max() <= 0.4
    for start in (4, 9, 14):  # chosen in steps 1, 5, 10, 15
        assert len(set(seen[start : start + 5])) == 1
    assert len(set(seen)) > 1


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(torch):
    def begin():
        model = network(torch)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        return (
            model,
            optimizer,
            ez.SparseProjection(model, 0.2, schedule=ez.training.Gradually(end=12), every=3).attach(optimizer),
        )

    model, optimizer, sparse = begin()
    steps(torch, model, optimizer, 20)
    other, other_optimizer, first = begin()
    steps(torch, other, other_optimizer, 9)
    saved = copy.deepcopy([other.state_dict(), other_optimizer.state_dict(), first.state_dict()])
    again, again_optimizer, second = begin()
    for thing, state in zip((again, again_optimizer, second), saved, strict=True):
        thing.load_state_dict(state)
    steps(torch, again, again_optimizer, 11)
    np.testing.assert_array_equal(flat(torch, again), flat(torch, model))
    assert second.t == sparse.t == 20 and sparse.k == 14  # 0.2 of 71
    with pytest.raises(ValueError, match="the state is one of 71 parameters, and these are 60"):
        ez.SparseProjection(list(model.parameters())[:1], 5).load_state_dict(saved[2])


@pytest.mark.parametrize("inner", [1, 5])
def test_closures_of_lbfgs(torch, inner):
    """It takes steps from differences of points, which the projection moves: what it remembers is forgotten."""
    scaled = X * np.linspace(1.0, 5.0, 12)
    data, target = torch.as_tensor(scaled), torch.as_tensor(Y)
    for gamma in (None, ez.sets.LinfBall(1.0)):
        model = torch.nn.Linear(12, 1, bias=False).double()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=inner, history_size=5)
        ez.SparseProjection(model, 3, gamma).attach(optimizer)

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((model(data)[:, 0] - target) ** 2).mean()
            loss.backward()
            return loss

        for _ in range(20):
            optimizer.step(closure)
            w = flat(torch, model)
            assert np.count_nonzero(w) <= 3 and (gamma is None or gamma.violation(w) == 0)
        assert closure().item() < np.mean(Y**2)
        assert optimizer.state[model.weight]["n_iter"] == 0


def test_frozen_parameters_and_those_turned_to_half_precision(torch):
    model = network(torch)
    model[0].weight.requires_grad_(False)
    with pytest.raises(ValueError, match=r"'0.weight' is frozen.*if p.requires_grad"):
        ez.SparseProjection(model, 5)
    before = model[0].weight.clone()
    others = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    sparse = ez.SparseProjection(others, 5).attach(optimizer)
    steps(torch, model, optimizer, 3)
    assert torch.equal(model[0].weight, before)
    assert sum(int(p.count_nonzero()) for p in others.values()) == 5
    model.half()
    with pytest.raises(TypeError, match="of one precision, single or double.*torch.float16"):
        sparse.step()


def test_gradients_that_are_added_up(torch):
    """Four backward passes for each step are one step for the projection."""
    runs = []
    for passes in (1, 4):
        model = network(torch)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        sparse = ez.SparseProjection(model, 10, schedule=ez.training.Gradually(end=6)).attach(optimizer)
        for _ in range(8):
            optimizer.zero_grad()
            for _ in range(passes):
                (((model(torch.as_tensor(X))[:, 0] - torch.as_tensor(Y)) ** 2).mean() / passes).backward()
            optimizer.step()
        assert sparse.t == 8
        runs.append(flat(torch, model))
    np.testing.assert_allclose(*runs, atol=1e-14)


def test_whole_neurons_kept_entries_and_quotas(torch):
    model = network(torch)
    neuron = np.concatenate([np.repeat(np.arange(5), 12), np.arange(5), np.arange(5), [-1]]).tolist()
    neuron[-1] = None  # the last bias belongs to none, and always stays
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ez.SparseProjection(model, ez.sparsity.Groups(2, neuron)).attach(optimizer)
    steps(torch, model, optimizer, 5)
    used = (model[0].weight.detach() != 0).any(dim=1)
    assert int(used.sum()) == 2 and not model[2].weight.detach()[0][~used].any() and model[2].bias.item() != 0
    model = network(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    biases = [n.endswith("bias") for n, p in model.named_parameters() for _ in range(p.numel())]
    sparse = ez.SparseProjection(model, 10, keep=np.array(biases)).attach(optimizer)
    steps(torch, model, optimizer, 5)
    assert (
        all(sparse.masks[n].all() for n in ("0.bias", "2.bias"))
        and sum(int(m.sum()) for m in sparse.masks.values()) == 10
    )


def test_single_precision_and_a_step_by_hand(torch):
    model = torch.nn.Linear(8, 2)
    sparse = ez.SparseProjection(dict(model.named_parameters()), 4, ez.sets.L1Ball(0.5))
    assert all(mask.all() for mask in sparse.masks.values())
    sparse.step()
    w = flat(torch, model)
    assert w.dtype == np.float32 and np.count_nonzero(w) <= 4 and np.abs(w).sum() <= 0.5 * (1 + 1e-6)


def twice(f, argument):
    f(argument)
    f(argument)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda m, t: ez.SparseProjection(m.half(), 3), TypeError, "of one precision, single or double.*torch.float16"),
        (lambda m, t: ez.SparseProjection(5, 3), TypeError, "parameters must be a module, or its parameters, got 5"),
        (lambda m, t: ez.SparseProjection(t.nn.Tanh(), 3), TypeError, "a module with parameters"),
        (lambda m, t: ez.SparseProjection(m, 1.5), ValueError, r"share of all parameters must lie in \(0, 1\]"),
        (lambda m, t: ez.SparseProjection(m, -1), ValueError, "k must be at least 0"),
        (lambda m, t: ez.SparseProjection(m, 3, ez.sets.Simplex(1.0)), ValueError, "needs a support-preserving set"),
        (lambda m, t: ez.SparseProjection(m, 3, schedule=7), TypeError, "schedule must be a function"),
        (lambda m, t: ez.SparseProjection(m, 3, schedule=lambda t, k, d: -1).step(), ValueError, r"schedule\(t=1\)"),
        (lambda m, t: ez.SparseProjection(m, 3, every=0), ValueError, "every must be at least 1"),
        (lambda m, t: ez.SparseProjection(m, 3).attach(t.optim.SGD([m.bias], lr=1)), ValueError, "not know the parameter 'weight'"),
        (lambda m, t: ez.SparseProjection([m.weight, m.weight], 3), ValueError, "one of them is named twice"),
        (lambda m, t: twice(ez.SparseProjection(m, 3).attach, t.optim.SGD(m.parameters(), lr=1)), ValueError, "attached already"),
        (lambda m, t: (m.bias.data.fill_(t.nan), ez.SparseProjection(m, 3).step()), ValueError, "'bias' holds NaN.* diverged"),
        (lambda m, t: ez.training.Gradually(end=0), ValueError, "end must be at least 1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(torch, make, error, words):
    with pytest.raises(error, match=words):
        make(torch.nn.Linear(4, 1), torch)


def test_a_restricted_projection_on_request(torch):
    model = torch.nn.Linear(4, 1, bias=False)
    ez.SparseProjection(model, 2, ez.sets.Simplex(1.0), projection="restricted").step()
    assert model.weight.sum().item() == pytest.approx(1.0) and int(torch.count_nonzero(model.weight)) <= 2


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install ellzero\[torch\]"):
        ez.SparseProjection([], 3)
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match=r"pip install ellzero\[jax\]"):
        ez.training.sparse_projection(None, 3)


# ---- JAX ----


@pytest.fixture
def jax():
    pytest.importorskip("optax", reason="pip install ellzero[jax]")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def test_optax_makes_the_steps_of_torch(jax, torch):
    """Two libraries, one way: also compiled, with momentum, a schedule and a Γ over several arrays."""
    import optax

    model = torch.nn.Linear(12, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    schedule = ez.training.Gradually(end=10)
    caps = ez.sets.GroupWise({"w": ez.sets.L2Ball(1.5), "b": ez.sets.LinfBall(0.01)}, ["w"] * 12 + ["b"])
    params = {
        "a": jax.numpy.asarray(model.weight.detach().numpy()[0]),
        "b": jax.numpy.asarray(model.bias.detach().numpy()),
    }
    sparse = ez.SparseProjection(model, 3, caps, schedule=schedule, every=2).attach(optimizer)
    transform = ez.training.sparse_projection(optax.sgd(0.02, momentum=0.9), 3, caps, schedule=schedule, every=2)
    state = transform.init(params)

    def loss(p):
        return jax.numpy.mean((X @ p["a"] + p["b"][0] - Y) ** 2)

    @jax.jit
    def step(params, state):
        updates, state = transform.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    for t in range(1, 26):
        params, state = step(params, state)
        steps(torch, model, optimizer, 1)
        np.testing.assert_allclose(np.r_[params["a"], params["b"]], flat(torch, model), atol=1e-12)
        assert np.count_nonzero(np.r_[params["a"], params["b"]]) <= schedule(t, 3, 13)
        mask = np.concatenate([m.numpy().ravel() for m in sparse.masks.values()])
        np.testing.assert_array_equal(state.mask, mask)
        trace = optax.tree_utils.tree_get(state, "trace")
        assert not np.r_[trace["a"], trace["b"]][~mask].any()
    assert int(state.t) == 25


def test_optax_with_adam_and_what_does_not_fit(jax):
    import optax

    transform = ez.training.sparse_projection(optax.adam(0.05), 3, ez.sets.LinfBall(1.0))
    params = jax.numpy.zeros(12)
    state = transform.init(params)
    for _ in range(100):
        slopes = jax.grad(lambda w: jax.numpy.mean((X @ w - Y) ** 2))(params)
        updates, state = transform.update(slopes, state, params)
        params = optax.apply_updates(params, updates)
        assert np.count_nonzero(params) <= 3 and np.abs(params).max() <= 1.0 + 1e-15
    assert set(np.flatnonzero(params)) == {0, 1, 2}
    mu = optax.tree_utils.tree_get(state, "mu")
    assert not np.asarray(mu)[3:].any() and np.asarray(optax.tree_utils.tree_get(state, "nu")).all()
    with pytest.raises(ValueError, match=r"needs the parameters: optimizer.update\(gradients, state, params\)"):
        transform.update(slopes, state)
    with pytest.raises(ValueError, match="needs a support-preserving set"):
        ez.training.sparse_projection(optax.sgd(0.1), 3, ez.sets.Simplex(1.0)).init(params)


OF_OPTAX = {
    "chain": lambda optax: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.02)),
    "two momenta": lambda optax: optax.chain(optax.trace(0.9), optax.trace(0.5), optax.scale(-0.02)),
    "by parameter": lambda optax: optax.multi_transform(
        {"x": optax.adam(0.02), "y": optax.sgd(0.02, momentum=0.9)}, {"a": "x", "b": "y"}
    ),
    "scheduled": lambda optax: optax.adam(optax.cosine_decay_schedule(0.05, 30)),
    "accumulated": lambda optax: optax.MultiSteps(optax.adam(0.02), 3),
}


@pytest.mark.parametrize("name", OF_OPTAX)
def test_optax_goes_on_where_it_was_saved(jax, name):
    """Compiled, with a schedule: saved in the middle, resumed, and the same to the last bit; no momentum is left."""
    import pickle

    import optax

    jnp = jax.numpy

    def loss(p):
        return jnp.mean((jnp.tanh(X @ p["a"]) @ p["b"] - Y) ** 2)

    def compiled():
        schedule = ez.training.Gradually(end=12)
        transform = ez.training.sparse_projection(OF_OPTAX[name](optax), 10, schedule=schedule, every=3)

        @jax.jit
        def step(p, state):
            updates, state = transform.update(jax.grad(loss)(p), state, p)
            return optax.apply_updates(p, updates), state

        return transform, step

    rng = np.random.default_rng(0)
    params = {"a": jnp.asarray(rng.standard_normal((12, 5))), "b": jnp.asarray(rng.standard_normal(5))}
    transform, step = compiled()
    state = transform.init(params)
    for t in range(20):
        if t == 9:
            saved = pickle.dumps(jax.device_get((params, state)))
        params, state = step(params, state)
    _, anew = compiled()
    again, state_of_it = pickle.loads(saved)
    for _ in range(11):
        again, state_of_it = anew(again, state_of_it)
    for name in params:
        np.testing.assert_array_equal(again[name], params[name])
    assert sum(int(jnp.count_nonzero(p)) for p in params.values()) <= 10
    masks = {(60,): np.asarray(state.mask)[:60], (5,): np.asarray(state.mask)[60:]}
    momenta = [leaf for path, leaf in jax.tree_util.tree_leaves_with_path(state.inner)
               if {getattr(key, "name", "") for key in path} & {"mu", "trace"}]  # fmt: skip
    assert momenta and not any(np.ravel(m)[~masks[np.ravel(m).shape]].any() for m in momenta)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optax_keeps_a_box_to_the_last_bit(jax, dtype):
    """An update is added to the parameters by somebody else, and that rounds."""
    import optax

    jnp = jax.numpy
    transform = ez.training.sparse_projection(optax.adam(0.1), 10, ez.sets.LinfBall(0.3))

    @jax.jit
    def step(p, state):
        updates, state = transform.update(jax.grad(lambda p: jnp.mean((X @ p - Y) ** 2))(p), state, p)
        return optax.apply_updates(p, updates), state

    params = jnp.asarray(100 * np.random.default_rng(1).standard_normal(12), dtype)
    state, most = transform.init(params), np.dtype(dtype).type(0.3)
    for _ in range(60):
        params, state = step(params, state)
        assert np.abs(params).max() <= most and np.count_nonzero(params) <= 10


def test_optax_over_several_starts_and_what_is_refused(jax):
    import optax

    jnp = jax.numpy
    transform = ez.training.sparse_projection(optax.adam(0.02), 3)
    params = jnp.asarray(np.random.default_rng(1).standard_normal((2, 12)))
    states = jax.vmap(transform.init)(params)
    updates, states = jax.vmap(transform.update)(params, states, params)
    assert [np.count_nonzero(w) for w in np.asarray(params + updates)] == [3, 3]
    for dtypes in (["float16"], ["bfloat16"], ["int32"], ["float32", "float64"]):
        with pytest.raises(TypeError, match=f"of one precision, single or double; got {dtypes[0]}"):
            transform.init([jnp.ones(3, dtype) for dtype in dtypes])
    flat_ = params[0].at[3].set(jnp.nan)
    with pytest.raises(Exception, match="NaN or infinities after 1 steps: the training has diverged"):
        transform.update(flat_, transform.init(flat_), flat_)
    kept = ez.training.sparse_projection(optax.adam(0.02), 3, momentum=())
    _, state = kept.update(params[0], kept.init(params[0]), params[0])
    assert np.asarray(optax.tree_utils.tree_get(state, "mu")).all()
