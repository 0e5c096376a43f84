"""Whose weights the reader of a reward has: its own, or those of the policy under training, borrowed for a while."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args

from seper_reward.client import SePerClient
from seper_reward.reward.sharding import whole_policy

if TYPE_CHECKING:
    from seper_reward.reward.base_weights import BaseWeights
    from seper_reward.scorer import SePerScorer

Weights = Literal["separate", "policy-base", "policy"]
_PROBE = "Question: Who wrote Hamlet?\nAnswer:"


class PolicyReader:
    """Chooses whose weights read, and lends a scorer with them.

    Args:
        scorer: Scorer that measures beliefs, or a client of a server that does; ``None`` loads the embedded models
            when they are first needed.
        weights: ``"separate"`` reads with the scorer's own weights; ``"policy-base"`` and ``"policy"`` with the
            trainer's, without and with its adapter, once ``attach`` has been called.

    Raises:
        ValueError: ``weights`` is none of these, or names the trainer's while ``scorer`` is a client.
    """

    def __init__(self, scorer: "SePerScorer | SePerClient | None", weights: Weights) -> None:
        if weights not in get_args(Weights):
            raise ValueError(f"reader must be {', '.join(get_args(Weights))}, got {weights!r}")
        if isinstance(scorer, SePerClient) and weights != "separate":
            raise ValueError(
                f"reader={weights!r} reads with the trainer's weights, a server with its own; leave out one"
            )
        self.weights = weights
        self._scorer, self._given = scorer, scorer is not None
        self._trainer: Any = None
        self._base: BaseWeights | None = None  # what the policy's base was before it was merged with its adapter
        self._lent: SePerScorer | None = None  # the scorer on the trainer's weights, which it reads as
        self._lent_as = ""  # the kind of sharding

    @property
    def remote(self) -> bool:
        """Whether a server reads."""
        return isinstance(self._scorer, SePerClient)

    @property
    def works_ahead(self) -> bool:
        """Whether the reader can begin with prompts while this process does something else: a server or an engine."""
        scorer = self._scorer
        if scorer is None or self.weights != "separate":
            return False
        return isinstance(scorer, SePerClient) or scorer.sampler.prompts_ahead > 0

    @property
    def moves(self) -> bool:
        """Whether the weights change while the policy is trained, so that beliefs must be measured anew."""
        return self.weights == "policy"

    def attach(self, trainer: Any) -> None:
        """Read with the trainer's own weights from now on.

        Samples one prompt under the trainer's real settings and compares its log-probabilities with teacher-forced
        ones: gradient checkpointing and train mode would spoil them silently. Weights that the trainer shards (FSDP,
        ZeRO-3) are gathered on every rank while it reads, as TRL gathers them for generation. If the trainer merges
        the adapter into the base to synchronise vLLM (``use_vllm``), ``"policy-base"`` reads from a copy of the
        adapted base weights, which is made here.

        Args:
            trainer: Trainer of TRL, whose model is the policy, before it trains.

        Raises:
            ValueError: ``weights`` is ``"separate"``; or the scorer's tokenizer is not the policy's; or the weights
                are sharded in another way, which cannot be undone for a while; or they are quantized, and merging
                would change them.
            RuntimeError: The log-probabilities differ.
        """
        if self.weights == "separate":
            raise ValueError("reader='separate' has weights of its own; attach is for policy-base and policy")
        if trainer.processing_class.get_vocab() != self._own().sampler.tokenizer.get_vocab():
            raise ValueError(
                f"reader={self.weights!r} reads with the policy's weights, but the scorer has another tokenizer; make "
                "the scorer from the policy's base model"
            )
        self._trainer, self._lent, self._base = trainer, None, None
        if self.weights == "policy-base" and getattr(trainer, "use_vllm", False):
            from seper_reward.reward.base_weights import BaseWeights  # needs torch, which a client may lack

            with whole_policy(trainer) as (policy, _):
                self._base = BaseWeights(policy)
        with self.scorer():
            pass  # it has been checked

    @contextmanager
    def scorer(self) -> Iterator["SePerScorer | SePerClient"]:
        """Lend the scorer; when the block ends, the trainer's model is as it was before.

        Where the trainer shards its weights, all ranks must enter the block together. What they do in it is up to
        each.

        Raises:
            ValueError: ``weights`` names the trainer's weights, and ``attach`` was not called, or they cannot be
                gathered; or this is an unpickled copy of an object that had a scorer of its own.
            RuntimeError: The reader on the trainer's weights is new, and its log-probabilities are not what they must
                be.
        """
        if self.weights == "separate":
            yield self._own()
            return
        if self._trainer is None:
            raise ValueError(f"reader={self.weights!r} needs attach(trainer) before the first reward")
        with (
            whole_policy(self._trainer) as (policy, sharding),
            self._unmerged(policy),
            borrowed_reader(policy, adapter=self.moves) as model,
        ):
            # a trainer shards its model when training begins: what was lent before knows another state of it
            if self._lent is None or self._lent_as != sharding:
                lent = self._own().reading_with(model, frozen=not self.moves)
                lent.sampler.check(_PROBE)
                self._lent, self._lent_as = lent, sharding
            assert self._lent is not None
            yield self._lent

    def __getstate__(self) -> dict[str, Any]:
        """Leave models out of a pickle; its copy loads the embedded ones, or raises if it had been given others."""
        client = self._scorer if isinstance(self._scorer, SePerClient) else None
        return {**self.__dict__, "_scorer": client, "_trainer": None, "_lent": None, "_base": None}

    def _unmerged(self, policy: Any) -> AbstractContextManager[None]:
        return nullcontext() if self._base is None else self._base.in_place(policy)

    def _own(self) -> Any:
        """Return the scorer with weights of its own."""
        if self._scorer is None and self._given:
            raise ValueError("a scorer does not travel between processes; make the reward where it is used")
        if self._scorer is None:
            from seper_reward.scorer import SePerScorer

            self._scorer = SePerScorer.from_pretrained()
        return self._scorer


@contextmanager
def borrowed_reader(model: Any, *, adapter: bool = False) -> Iterator[Any]:
    """Make a model under training a reader for a while.

    Inside the block there are no gradients, the model is in eval mode, gradient checkpointing (which would silently
    drop the key-value cache) is off, LoRA adapters are off unless asked for, and random numbers do not advance those
    of training. At the end, also after an exception, everything is put back module by module.

    Args:
        model: The model, unwrapped from DDP, its weights whole; a ``PeftModel`` if its adapters shall be off.
        adapter: Whether to read with the adapters on, that is with the policy as it is.

    Yields:
        The model; of a ``PeftModel`` its base model, whose layers hold the adapters.

    Raises:
        ValueError: Adapters shall be off, and the model has none, so that its weights are the policy itself.
    """
    import torch

    modules = list(model.modules())
    training = [module.training for module in modules]
    checkpointing = [
        (each, each.gradient_checkpointing) for each in modules if hasattr(each, "gradient_checkpointing")
    ]
    caching = model.config.use_cache
    if not adapter and not hasattr(model, "disable_adapter"):
        raise ValueError(
            "the policy has no adapter to switch off, so its base is gone once it is trained; train with LoRA, or "
            "give the reward a reader of its own"
        )
    devices = [model.device] if model.device.type != "cpu" else []
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices, device_type=model.device.type if devices else "cuda"))
        if not adapter:
            stack.enter_context(model.disable_adapter())
        try:
            model.eval()
            for module, _ in checkpointing:
                module.gradient_checkpointing = False
            model.config.use_cache = True
            yield model.get_base_model() if hasattr(model, "get_base_model") else model
        finally:
            model.config.use_cache = caching
            for module, value in checkpointing:
                module.gradient_checkpointing = value
            for module, mode in zip(modules, training, strict=True):
                module.training = mode
