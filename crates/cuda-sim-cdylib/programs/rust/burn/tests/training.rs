//! Networks that burn trains on the CUDA backend. The same training on burn's backend for the host
//! gives the losses to compare with.

use burn::backend::{Autodiff, Cuda, NdArray};
use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor, TensorData, activation};

/// Numbers from -1 to 1 that depend on a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn data<const D: usize>(&mut self, shape: [usize; D], scale: f32) -> TensorData {
        let count = shape.iter().product();
        let numbers: Vec<f32> = (0..count).map(|_| self.next() * scale).collect();
        TensorData::new(numbers, shape)
    }

    fn linear<B: Backend>(&mut self, inputs: usize, outputs: usize, on: &B::Device) -> Linear<B> {
        let mut layer = LinearConfig::new(inputs, outputs).init(on);
        let scale = (inputs as f32).sqrt().recip();
        let weights = self.data([inputs, outputs], scale);
        layer.weight = Param::from_tensor(Tensor::from_data(weights, on));
        layer.bias = Some(Param::from_tensor(Tensor::zeros([outputs], on)));
        layer
    }
}

#[derive(Module, Debug)]
struct Perceptron<B: Backend> {
    layers: [Linear<B>; 3],
}

impl<B: Backend> Perceptron<B> {
    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let [first, second, last] = &self.layers;
        let x = activation::tanh(first.forward(x));
        last.forward(activation::relu(second.forward(x)))
    }
}

/// Fits `y = x0 · x1` with Adam. Returns the loss of each step.
fn fit<B: AutodiffBackend>(on: &B::Device) -> Vec<f32> {
    let mut numbers = Numbers(1);
    let mut network = Perceptron {
        layers: [
            numbers.linear::<B>(2, 16, on),
            numbers.linear(16, 16, on),
            numbers.linear(16, 1, on),
        ],
    };
    let x = Tensor::<B, 2>::from_data(numbers.data([64, 2], 1.0), on);
    let y = x.clone().slice([0..64, 0..1]) * x.clone().slice([0..64, 1..2]);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..40 {
        let loss = MseLoss::new().forward(network.forward(x.clone()), y.clone(), Reduction::Mean);
        losses.push(loss.clone().into_data().to_vec().unwrap()[0]);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.02, network, gradients);
    }
    losses
}

#[derive(Module, Debug)]
struct Convolutional<B: Backend> {
    convolution: Conv2d<B>,
    pool: MaxPool2d,
    last: Linear<B>,
}

impl<B: Backend> Convolutional<B> {
    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = activation::relu(self.convolution.forward(x));
        self.last.forward(self.pool.forward(x).flatten(1, 3))
    }
}

const SIDE: usize = 10;

/// Images of a horizontal or a vertical bar in noise, and which of the two each one is.
fn bars<B: Backend>(
    numbers: &mut Numbers,
    count: usize,
    on: &B::Device,
) -> (Tensor<B, 4>, Vec<i32>) {
    let mut pixels = Vec::new();
    let mut kinds = Vec::new();
    for image in 0..count {
        let kind = image % 2;
        let line = ((numbers.next() + 1.0) / 2.0 * SIDE as f32) as usize;
        for place in 0..SIDE * SIDE {
            let is_bar = [place / SIDE, place % SIDE][kind] == line;
            pixels.push(numbers.next() * 0.2 + f32::from(is_bar));
        }
        kinds.push(kind as i32);
    }
    let images = TensorData::new(pixels, [count, 1, SIDE, SIDE]);
    (Tensor::from_data(images, on), kinds)
}

/// Learns to distinguish the bars. Returns the loss of each step, and the share of new images that
/// the network then recognizes.
fn classify<B: AutodiffBackend>(on: &B::Device) -> (Vec<f32>, f32) {
    let mut numbers = Numbers(2);
    let mut convolution = Conv2dConfig::new([1, 4], [3, 3]).init(on);
    convolution.weight = Param::from_tensor(Tensor::from_data(numbers.data([4, 1, 3, 3], 0.5), on));
    convolution.bias = Some(Param::from_tensor(Tensor::zeros([4], on)));
    let mut network = Convolutional {
        convolution,
        pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
        last: numbers.linear::<B>(4 * 4 * 4, 2, on),
    };
    let (images, kinds) = bars::<B>(&mut numbers, 32, on);
    let targets = Tensor::<B, 1, Int>::from_data(TensorData::new(kinds, [32]), on);
    let entropy = CrossEntropyLossConfig::new().init(on);
    let mut optimizer = SgdConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..40 {
        let loss = entropy.forward(network.forward(images.clone()), targets.clone());
        losses.push(loss.clone().into_data().to_vec().unwrap()[0]);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(0.3, network, gradients);
    }
    let (images, kinds) = bars::<B>(&mut numbers, 32, on);
    let scores: Vec<f32> = network.forward(images).into_data().to_vec().unwrap();
    let right = scores.chunks(2).zip(kinds).filter(|(score, kind)| {
        let found = i32::from(score[1] > score[0]);
        found == *kind
    });
    (losses, right.count() as f32 / 32.0)
}

/// Compares losses with those on the host. Matrix products on the device may use TF32.
fn compare(found: &[f32], expected: &[f32]) {
    println!("{found:?}\nhost: {expected:?}");
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= 0.002 * expected + 1e-4,
            "step {step}: {found}, and {expected} on the host"
        );
    }
    assert!(found[found.len() - 1] < found[0] / 4.0, "{found:?}");
}

#[test]
fn a_perceptron_learns_as_on_the_host() {
    let found = fit::<Autodiff<Cuda>>(&Default::default());
    compare(&found, &fit::<Autodiff<NdArray>>(&Default::default()));
}

#[test]
fn a_convolutional_network_learns_as_on_the_host() {
    let (found, share) = classify::<Autodiff<Cuda>>(&Default::default());
    let (expected, on_host) = classify::<Autodiff<NdArray>>(&Default::default());
    compare(&found, &expected);
    println!("recognized: {share}, on the host {on_host}");
    assert!(
        share >= 0.9 && (share - on_host).abs() < 0.1,
        "{share}, {on_host}"
    );
}
