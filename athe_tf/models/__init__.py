"""Classifiers by name, and a hypersphere head for the classifiers you already have.

    net = athe_tf.models.build("wrn-34-10", num_classes=10, head="he")     # a plain keras.Model
    net = athe_tf.models.to_hypersphere(your_keras_classifier)
    net = athe_tf.models.to_logits(your_keras_classifier)                  # without its softmax
    net = athe_tf.models.with_input_range(your_keras_classifier, (0, 255)) # takes images in [0, 1]
    athe_tf.models.freeze(net, "conv1|group1_.*")                          # layers that are not trained
    embedding = athe_tf.models.embedding_model(net)                        # unit features, for retrieval
    net = athe_tf.models.ensemble_of([one, other])                         # the mean of their probabilities
    net = athe_tf.models.from_torch("net.pt", "wrn-34-10")                 # a published PyTorch checkpoint
    athe_tf.models.load_torch_weights(net, state)                          # the same, into a model you have
    athe_tf.models.to_torch(net)                                           # the other way: a state dict

| name | network | source |
|---|---|---|
| `small_cnn` | three convolutions, for digits and for tests | – |
| `lenet`, `lenet-W` | two 5x5 convolutions, 1024 features | MNIST of Liu et al. 2020 |
| `wrn-D-K` | pre-activation wide ResNet, depth D = 6n + 4, K times as wide | TRADES, HE, Rice et al. |
| `dm_wrn-D-K` | the same with DeepMind's padding; published ones use SiLU | Gowal et al. 2020 |
| `resnet18`, `resnet18-W` | post-activation ResNet with the 3x3 stem of CIFAR | Liu et al. 2020 |
| `resnet50`, `resnet101`, `resnet152` | bottleneck ResNets with the 7x7 stem of ImageNet | LLR, FreeAT, HE |
| `wide_resnet50_2`, `wide_resnet101_2` | the same, twice as wide inside the blocks | HE |
| `resnet50_denoise`, `resnet152_denoise` | with a denoising block after each group | Xie et al. 2019 |
| `preact_resnet18` | pre-activation ResNet18, shortcuts from the activated tensor, last BN | Rice et al. |
| `preact_resnet18_fast` | the same, shortcuts from the block's input, no last BN | FastAT, GradAlign |
| `preact_resnet18_nfgsm` | the same, shortcuts from the block's input, last BN | N-FGSM |
| `vgg16`, `vgg16-W` | VGG16 with batch normalization and one dense layer | Liu et al. 2020 |

W is the width of Liu et al., in sixteenths of the standard network: `resnet18-8` has 32 to 256 channels,
`resnet18-16` is `resnet18`; pre-activation ResNets take it too. To add a model, write a function and add
its name to `names.py`. Or pass `module:function` as the name, a function of your own: see `build`.
"""

from athe_tf.utils.registry import attach_stub

_FROM_CONVERSION = {
    "from_torch": "athe_tf.conversion.torch_import",
    "load_torch_weights": "athe_tf.conversion.torch_weights",
    "to_torch": "athe_tf.conversion.torch_weights",
}
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, _FROM_CONVERSION)
