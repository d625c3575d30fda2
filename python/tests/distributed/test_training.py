"""DDP, FSDP2, tensor parallel and pipelines on two ranks do what one process does."""

from . import ranks


def test_models_train_together_as_alone():
    for output in ranks.run("training", 2, seconds=400):
        assert output.count("passed ") == 10, output
