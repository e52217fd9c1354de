"""Every rule: one wrong configuration each, the right message, and silence on everything that is shipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from recipe.preflight import (
    check_loop,
    check_recipe,
    preflight,
)
from recipe.preflight.data import Data
from recipe.preflight.memory import checkpoint_bytes, memory
from recipe.preflight.model_facts import model_facts
from recipe.preflight.plan import plan
from tests.recipe.recipes import NAMES, words
from tests.recipe.variants import ACTOR, BIG, BUFFER, ROLLOUT, SAMPLER, variant

# Name (with the number of the pain point where it has one): overrides, and what the message must say.
WRONG = {
    "2 epochs instead of steps": (["trainer.total_training_steps=null"], "total_training_steps=None must be"),
    "mini batch of nothing": ([f"{ACTOR}.ppo_mini_batch_size=0"], "ppo_mini_batch_size=0 must be"),
    "no devices": (["trainer.n_gpus_per_node=0"], "n_gpus_per_node=0 must be"),
    "batch that is a word": (["data.train_batch_size=abc"], "train_batch_size=abc must be"),
    "no steps": (["trainer.total_training_steps=0"], "total_training_steps=0 must be"),
    "seed that is a word": (["seed=x"], "seed=x must be"),
    "6 section of an older verl": (["reward_model.reward_manager=dapo"], "reward.reward_manager"),
    "7 penalty where nobody reads it": (["+reward_model.overlong_buffer.enable=true"], "overlong_buffer_cfg"),
    "7 manager that pays no penalty": (
        ["reward.reward_manager.source=register", "reward.reward_manager.name=naive"],
        "punishment would be silently off",
    ),
    "14 mini batch in samples": ([f"{ACTOR}.ppo_mini_batch_size=64"], "both count prompts, not samples"),
    "15 model of 4096 positions": (
        [*BIG, "actor_rollout_ref.model.path=Qwen/Qwen2.5-Math-7B"],
        "more than the model's max_position_embeddings=4096",
    ),
    "15 context raised for the trainer only": (
        ["experiment=qwen2.5_7b_math", "cluster=multi_node", f"~{ROLLOUT}.engine_kwargs.vllm.hf_overrides"],
        "the rollout engine still sees 4096",
    ),
    "secret among the settings": (
        ["+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY=planted-4711"],
        "ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY holds a secret",
    ),
    "15 short window": ([f"{ROLLOUT}.max_model_len=40"], "max_model_len=40"),
    "23 buffer above the limit": ([f"{BUFFER}.len=64"], "overlong_buffer_cfg.len=64 must lie between 0 and"),
    "23 penalty of the wrong sign": ([f"{BUFFER}.penalty_factor=-1.0"], "penalty_factor=-1.0 must be positive"),
    "23 limit that drifted": (["reward.reward_kwargs.max_resp_len=32"], "max_resp_len=32 differs"),
    "24 both overlong methods": (["overlong_filtering.enable=true"], "one or the other"),
    "24 filtering in another loss": (
        ["technique=overlong_filtering", f"{ACTOR}.policy_loss.loss_mode=vanilla"],
        "loss_mode=vanilla",
    ),
    "24 filtering in another agent loop": (
        ["technique=overlong_filtering", f"{ROLLOUT}.agent.default_agent_loop=single_turn_agent"],
        "masks nothing",
    ),
    "31 spread below nothing": ([f"{SAMPLER}.filter.min_spread=-1"], "min_spread=-1"),
    "33 generation batch": (["data.gen_batch_size=1536"], "gen_batch_size=1536 is overridden to 1"),
    "4 limit that verl ignores": (
        ["algorithm.filter_groups.max_num_gen_batches=10"],
        "max_num_gen_batches=10 is ignored",
    ),
    "4 sampler that never gives up": (["trainer.v1.sampler.custom_sampler.path=null"], "never gives up"),
    "5 shaped filter metric": (["algorithm.filter_groups.metric=reward"], "contains the overlong penalty"),
    "no bound": ([f"{SAMPLER}.bounds.max_passes=null"], "may never end"),
    "unknown surplus": ([f"{SAMPLER}.surplus=x"], "surplus='x' is unknown"),
    "unknown exhaustion": ([f"{SAMPLER}.bounds.on_exhausted=bla"], "on_exhausted='bla'"),
    "unknown reward mode": (["reward.reward_kwargs.mode=zzz"], "zzz"),
    "unknown answer format": (["answer_format=zzz"], "zzz"),
    "43 checkpoint without the optimizer": (
        [f"{ACTOR}.checkpoint.save_contents=[model,hf_model]"],
        "lacks optimizer, extra",
    ),
    "44 path that is no checkpoint": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/x"],
        "must be a global_step_N folder",
    ),
    "44 path beside a checkpoint": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=/x/global_step_10_backup"],
        "must be a global_step_N folder",
    ),
    "no frequency": (["trainer.save_freq=null"], "save_freq=None must be a whole number of steps"),
    "44 unknown way to resume": (["trainer.resume_mode=always"], "resume_mode=always is unknown"),
    "45 no checkpoint kept": (["trainer.max_actor_ckpt_to_keep=0"], "max_actor_ckpt_to_keep=0 must be at least 1"),
    "45 save that says never when it is done": ([f"{ACTOR}.checkpoint.async_save=true"], "async_save=true"),
    "46 data order by chance": (["data.seed=null"], "data.seed=null"),
    "47 mini batch that does not divide": (["data.train_batch_size=30"], "must divide data.train_batch_size=30"),
    "47 mini batch above the batch": (
        ["data.train_batch_size=16", f"{ACTOR}.ppo_mini_batch_size=128"],
        "nearest: 16",
    ),
    "47 ranks that cannot share": (
        ["trainer.n_gpus_per_node=32", f"{ACTOR}.ppo_mini_batch_size=2"],
        "use a multiple of 4, such as 4",
    ),
    "47 micro-batch shorter than a sequence": (
        [f"{ACTOR}.ppo_max_token_len_per_gpu=80"],
        "must hold the longest sequence, max_prompt_length + max_response_length = 88 tokens; use at least 88",
    ),
    "one sample": ([f"{ROLLOUT}.n=1"], "at least 2 samples"),
    "11 greedy samples": ([f"{ROLLOUT}.val_kwargs.do_sample=false"], "repeats one greedy answer"),
    "50 probabilities not compared": ([f"{ROLLOUT}.calculate_log_probs=false"], "calculate_log_probs=false hides"),
    "51 top_p in training": ([f"{ROLLOUT}.top_p=0.7"], "top_p=0.7 biases"),
    "51 temperature": ([f"{ROLLOUT}.temperature=0.6"], "temperature=0.6 biases"),
    "51 top_k": ([f"{ROLLOUT}.top_k=50"], "top_k=50 biases"),
    "52 clip range upside down": ([f"{ACTOR}.clip_ratio_high=0.1"], "clip_ratio_high=0.1"),
    "53 unknown aggregation": ([f"{ACTOR}.loss_agg_mode=token_mean"], "loss_agg_mode=token_mean is unknown"),
    "54 model larger than the GPUs": (
        ["experiment=qwen2.5_32b", "cluster=single_node"],
        "take 66 GB of each GPU, preflight.gpu_memory_gb=40",
    ),
    "54 engine and actor larger than the GPU": (
        ["experiment=qwen2.5_0.5b_single_gpu", "cluster=single_gpu", f"{ROLLOUT}.gpu_memory_utilization=0.95"],
        "param_offload=true",
    ),
    "54 cache below one sequence": (
        [*BIG, f"{ROLLOUT}.gpu_memory_utilization=0.26"],
        "less than one sequence of 22528",
    ),
    "55 nodes of a local cluster": (["trainer.nnodes=2"], "a local cluster has one node"),
    "55 resources of a joined cluster": (["ray_kwargs.ray_init.address=auto"], "Ray refuses resources"),
    "tensor parallel and devices": ([f"{ROLLOUT}.tensor_model_parallel_size=3"], "does not divide nnodes"),
    "tensor parallel over nodes": (
        [*BIG, "trainer.n_gpus_per_node=6", f"{ROLLOUT}.tensor_model_parallel_size=4"],
        "would straddle nodes; nearest: 3",
    ),
    "tensor parallel and heads": (
        ["experiment=qwen2.5_0.5b_single_gpu", "cluster=single_node", f"{ROLLOUT}.tensor_model_parallel_size=4"],
        "14 attention heads and 2 key-value heads; possible: 1, 2, 14",
    ),
    "Ulysses and devices": (
        ["experiment=qwen2.5_7b_math", "cluster=multi_node", f"{ACTOR}.ulysses_sequence_parallel_size=3"],
        "ulysses_sequence_parallel_size=3 does not divide nnodes",
    ),
    "Ulysses without flash attention": (
        [*BIG, "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"],
        "silently wrong",
    ),
    "Ulysses without packing": ([*BIG, "actor_rollout_ref.model.use_remove_padding=false"], "use_remove_padding=true"),
    "reward function that our manager does not call": (
        ["reward.custom_reward_function.path=/my/reward.py"],
        "custom_reward_function.path=/my/reward.py is ignored by reward.reward_manager.module.path=pkg://reward.manager",
    ),
    "61 reward function that is not there": (
        ["reward.reward_manager.source=register", "reward.custom_reward_function.path=/nowhere/reward.py"],
        "reward.custom_reward_function.path=/nowhere/reward.py: there is no such file",
    ),
    "61 relative path of a reward": (
        ["reward.reward_manager.module.path=my/reward.py"],
        "does not exist in a Ray worker's folder",
    ),
    "61 file that is not there": (["reward.reward_manager.module.path=/nowhere/reward.py"], "there is no such file"),
    "61 module that is not installed": (
        ["reward.reward_manager.module.path=pkg://my_rewards.math"],
        "no module my_rewards.math is installed",
    ),
    "61 module without the class": (["reward.reward_manager.name=Missing"], "does not define Missing"),
    "63 dapo in name only": (["algorithm.filter_groups.enable=false"], "technique=dapo, but it lacks dynamic sampling"),
    "64 KL in the reward and a filter": (["algorithm.use_kl_in_reward=true"], "DAPO has no KL term"),
    "64 reward model and a filter": (["reward.reward_model.enable=true"], "reward.reward_model.enable=true"),
    "unknown strategy": ([f"{ACTOR}.strategy=abc"], "strategy=abc is unknown here: use fsdp2 or fsdp"),
    "unknown engine": ([f"{ROLLOUT}.name=abc"], "rollout.name=abc is unknown here: use vllm"),
    "unknown type of numbers": ([f"{ROLLOUT}.dtype=abc"], "rollout.dtype=abc is unknown here: use bfloat16"),
    "unknown stored type": ([f"{ACTOR}.fsdp_config.model_dtype=abc"], "model_dtype=abc is unknown here"),
    "unknown device": (["trainer.device=abc"], "trainer.device=abc is unknown here: use cuda"),
    "unknown loss": ([f"{ACTOR}.policy_loss.loss_mode=abc"], "loss_mode=abc is unknown: use one of dapo, vanilla"),
    "unknown advantage": (["algorithm.adv_estimator=abc"], "adv_estimator=abc is unknown: use one of grpo"),
    "unknown agent loop": ([f"{ROLLOUT}.agent.default_agent_loop=abc"], "default_agent_loop=abc is unknown"),
    "rate below nothing": ([f"{ACTOR}.optim.lr=-1"], "optim.lr=-1 must be above 0"),
    "decay below nothing": ([f"{ACTOR}.optim.weight_decay=-0.1"], "weight_decay=-0.1 must be 0 or more"),
    "gradients cut to nothing": ([f"{ACTOR}.optim.clip_grad=0"], "clip_grad=0 must be above 0"),
    "seed below nothing": (["seed=-1"], "seed=-1 must be 0 or more"),
    "saving below never": (["trainer.save_freq=-5"], "save_freq=-5 must be 1 step or more; -1 is never"),
    "more than the GPU": ([f"{ROLLOUT}.gpu_memory_utilization=9"], "gpu_memory_utilization=9 must be above 0 and"),
    "old trainer": (["trainer.use_v1=false"], "ignores the group filter"),
    "trainer of another kind": (["trainer.v1.trainer_mode=sync"], "trainer_mode=sync"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_recipe_gets_its_message(name):
    overrides, message = WRONG[name]
    config = variant(*overrides)
    if "gpu_memory_gb=40" in message:
        config.preflight.gpu_memory_gb = 40
    found = check_recipe(config)
    assert any(message in problem for problem in found), found


def test_all_problems_are_reported_at_once():
    assert len(check_recipe(variant(f"{ROLLOUT}.top_p=0.7", f"{ROLLOUT}.n=1"))) == 2


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_fires_on_a_shipped_recipe(name):
    assert check_recipe(variant(*words(name))) == []


TECHNIQUES = [path.stem for path in sorted((Path(__file__).parents[2] / "configs" / "technique").glob("*.yaml"))]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_no_rule_fires_on_a_technique(technique):
    assert check_recipe(variant(f"technique={technique}")) == []


def test_a_reward_function_goes_with_a_manager_of_verls_that_calls_it(tmp_path):
    (tmp_path / "reward.py").write_text("def compute_score(**_): return 1.0\n")
    verls_own = ["reward.reward_manager.source=register", "reward.reward_manager.name=dapo"]
    assert check_recipe(variant(*verls_own, f"reward.custom_reward_function.path={tmp_path}/reward.py")) == []


def test_overlong_filtering_may_be_forced():
    assert check_recipe(variant("overlong_filtering.enable=true", "overlong_filtering.force=true")) == []


def test_preflight_imports_no_heavy_library_and_takes_less_than_three_seconds():
    code = (
        "import sys, time; t = time.process_time(); sys.argv = ['x', '--recipe-only', 'cluster=cpu'];"
        "import runpy; runpy.run_module('recipe.preflight', run_name='__main__');"
        "heavy = {'torch', 'verl', 'ray', 'transformers'} & set(sys.modules); assert not heavy, heavy;"
        "assert time.process_time() - t < 3, time.process_time() - t"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert "nothing stops this run" in done.stdout


# The loop


def test_loop_without_a_checkpoint_is_refused():
    assert "saves no checkpoint" in check_loop(variant("trainer.save_freq=-1"))[0]
    assert check_loop(variant()) == []


def test_loop_takes_one_file():
    (found,) = check_loop(variant("data.train_files=[a.parquet,b.parquet]"))
    assert "data.train_files=['a.parquet', 'b.parquet']: the loop prepares and evaluates one file" in found


def test_loop_of_a_recipe_without_one():
    assert "loop.data is not set" in check_loop(variant("experiment=qwen2.5_32b"))[0]


# The plan


def test_14_plan_of_the_published_run_in_plain_words():
    config = variant(*BIG)
    text = "\n".join(plan(config, model_facts(config), Data(config)))
    assert "512 prompts x 16 samples = 8,192 samples" in text
    assert "16 a step, each of 32 prompts = 512 samples" in text
    assert "320 rollout steps = 5,120 gradient steps" in text
    assert "assumed" in text


def test_2_and_56_plan_counts_passes_and_validation_tokens(recipe):
    config = recipe("trainer.total_training_steps=20", "trainer.test_freq=10")
    text = "\n".join(plan(config, None, Data(config)))
    assert "640 trained prompts, 16.00 passes over the data at least" in text
    assert "3 times 4 problems x 4 samples, at most 1,024 tokens each time" in text  # 4 x 4 x 64


def test_52_one_update_a_step_is_noted(recipe):
    config = recipe(f"{ACTOR}.ppo_mini_batch_size=32")
    assert any("the ratio is 1 everywhere" in note for note in preflight(config).notes)


def test_56_validation_longer_than_the_steps_between_is_noted(recipe):
    val = [f"v{i}" for i in range(700)]  # 700 x 4 x 64 tokens; 10 steps have 10 x 32 x 8 x 64
    quick, slow = (preflight(recipe(f"trainer.test_freq={freq}", val=val)).notes for freq in (20, 10))
    assert not any("look stuck" in note for note in quick)
    assert any(
        "a validation generates up to 179,200 tokens, the 10 steps between two of them 163,840" in n for n in slow
    )


def test_memory_by_hand():
    config = variant(*BIG)
    facts = model_facts(config)
    found = memory(config, facts, 80)
    # 32.76 B parameters in fp32 over 128 ranks; a replica of 4 GPUs holds them in bf16
    assert found.weights == found.gradients == pytest.approx(32.76 * 4 / 128, rel=1e-3)
    assert found.optimizer == pytest.approx(2 * found.weights)
    assert found.rollout_weights == pytest.approx(32.76 * 2 / 4, rel=1e-3)
    # 64 layers x 2 (key, value) x 2 of 8 heads x 128 x 2 bytes = 65,536 bytes a token and rank
    assert found.kv_tokens == pytest.approx(found.kv_cache * 1e9 / 65_536, rel=1e-4)
    # hidden states 64 x 5120 x 2 bytes, one layer 2 x (8 x 5120 + 4 x 27648), logits 4 x 152064, a token
    assert found.activations == pytest.approx(22_528 * (655_360 + 303_104 + 608_256) / 1e9)
    assert found.resident == 0  # all offloaded
    assert checkpoint_bytes(config, facts) == facts.parameters * 12  # weights and two moments, no exported copy
