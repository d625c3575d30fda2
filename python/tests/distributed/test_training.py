"""DDP, FSDP2, tensor parallel and pipelines on two ranks do what one process does."""

from . import ranks


def test_models_train_together_as_alone():
    for output in ranks.run("training", 2, seconds=400):
        assert output.count("passed ") == 12, output


def test_shards_are_replicated_on_four_ranks():
    for output in ranks.run("training", 4, seconds=200, CHECKS="sharded_and_replicated"):
        assert "passed sharded_and_replicated" in output, output
