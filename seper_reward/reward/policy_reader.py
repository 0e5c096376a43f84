"""The reader of a reward, with separate weights or with the weights of the policy under training."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, get_args

from seper_reward.client import SePerClient
from seper_reward.options import check_choice
from seper_reward.reward.sharding import BaseWeights, whole_policy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer

    from seper_reward.scorer import SePerScorer

Weights = Literal["separate", "policy-base", "policy"]


class PolicyReader:
    """Provides a scorer that reads with its own weights (``"separate"``) or, after ``attach``, with the trainer's."""

    def __init__(self, scorer: "SePerScorer | SePerClient | None", weights: Weights) -> None:
        check_choice("reader", weights, get_args(Weights))
        if isinstance(scorer, SePerClient) and weights != "separate":
            raise ValueError(
                f"reader={weights!r} reads with the trainer's weights, but a server has its own; leave out one "
                "(AsyncGRPOTrainer with LoRA: its vLLM serves the base, so start the server with --engine URL of it)"
            )
        self.weights = weights
        self._scorer, self._given = scorer, scorer is not None
        self._trainer: Trainer | None = None
        self._base: BaseWeights | None = None  # the base weights from before the first merge with the adapter
        self._lent: SePerScorer | None = None  # the scorer on the trainer's weights
        self._lent_as = ""  # how those weights were sharded

    def __repr__(self) -> str:
        """Return the scorer, if it is loaded, and whose weights it reads with."""
        return f"{self._scorer or 'the embedded models'}, reader={self.weights!r}"

    @property
    def remote(self) -> bool:
        """Whether the reader is behind a server."""
        return isinstance(self._scorer, SePerClient)

    @property
    def moves(self) -> bool:
        """Whether training changes the reader's weights; cached beliefs are then outdated after a step."""
        return self.weights == "policy"

    def attach(self, trainer: "Trainer") -> None:
        """Read with the weights of a trainer of TRL from now on; call it before training.

        One prompt is sampled with the trainer's settings, and its log-probabilities are compared with teacher-forced
        ones: gradient checkpointing and train mode would change them silently, and raise ``RuntimeError``. With
        ``use_vllm``, ``"policy-base"`` reads from a copy of the adapted base weights, which is made here. Raises
        ``ValueError`` if the scorer's tokenizer is not the policy's, or its weights cannot be gathered or copied.
        """
        if self.weights == "separate":
            raise ValueError("reader='separate' has its own weights; attach is for policy-base and policy")
        if trainer.processing_class.get_vocab() != self._own().sampler.tokenizer.get_vocab():
            raise ValueError(
                f"reader={self.weights!r} reads with the policy's weights, but the scorer has another tokenizer; load "
                "the scorer from the policy's base model"
            )
        self._trainer, self._lent, self._base = trainer, None, None
        if self.weights == "policy-base" and getattr(trainer, "use_vllm", False):
            with whole_policy(trainer) as (policy, _):
                self._base = BaseWeights(policy)
        with self.scorer():
            pass  # the scorer is checked when the block is entered

    @contextmanager
    def scorer(self) -> Iterator["SePerScorer | SePerClient"]:
        """Yield the scorer; at the end of the block the trainer's model is restored.

        If the trainer shards its weights, all ranks must enter the block together; within it, each rank works
        independently. Raises ``ValueError`` if the trainer's weights are needed and ``attach`` was not called.
        """
        if self.weights == "separate":
            yield self._own()
            return
        if self._trainer is None:
            raise ValueError(f"reader={self.weights!r} needs attach(trainer) before the first reward")
        with (
            whole_policy(self._trainer) as (policy, sharding),
            nullcontext() if self._base is None else self._base.in_place(policy),
            borrowed_reader(policy, adapter=self.moves) as model,
        ):
            # the trainer shards its model when training starts, so an earlier scorer refers to unsharded weights
            if self._lent is None or self._lent_as != sharding:
                self._lent = self._own().reading_with(model, frozen=not self.moves)
                self._lent_as = sharding
            assert self._lent is not None
            yield self._lent

    def __getstate__(self) -> dict[str, Any]:
        """Leave models out of a pickle; the copy loads the embedded models, or raises if a scorer had been given."""
        client = self._scorer if isinstance(self._scorer, SePerClient) else None
        return {**self.__dict__, "_scorer": client, "_trainer": None, "_lent": None, "_base": None}

    def _own(self) -> Any:
        """Return the scorer with its own weights, loaded on first use."""
        if self._scorer is None and self._given:
            raise ValueError("a scorer cannot be pickled; make the reward in the process that uses it")
        if self._scorer is None:
            from seper_reward.scorer import SePerScorer

            self._scorer = SePerScorer.from_pretrained()
        return self._scorer


@contextmanager
def borrowed_reader(model: "PreTrainedModel", *, adapter: bool = False) -> Iterator[Any]:
    """Use a model under training, with unsharded weights, as a reader within a block; then restore every module.

    There are no gradients, the model is in eval mode, gradient checkpointing (which would silently drop the key-value
    cache) is off, LoRA adapters are off unless ``adapter`` is true, and the random state of training does not change.
    A ``PeftModel`` is yielded as its base model, whose layers contain the adapters; without ``adapter``, another model
    raises ``ValueError``.
    """
    import torch

    modules = list(model.modules())
    training = [module.training for module in modules]
    checkpointing = [
        (module, module.gradient_checkpointing) for module in modules if hasattr(module, "gradient_checkpointing")
    ]
    caching = model.config.use_cache
    if not adapter and not hasattr(model, "disable_adapter"):
        raise ValueError(
            "the policy has no adapter to switch off, so training overwrites its base; train with LoRA, or use "
            "reader='separate'"
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
