//! Calls of ops of images become kernels that compile.

mod support;

use spyre_aten::{Argument, Decline};
use spyre_numerics::DType::{BFloat16, Float32, Int64};

use support::{compiles, recipe, tensor};

const MASK: Argument<'static> = Argument::Bools(&[true; 3]);

fn lists(numbers: [&[i64]; 3], is_transposed: bool, groups: i64) -> [Argument<'_>; 6] {
    let [steps, paddings, dilations] = numbers.map(Argument::Ints);
    let more = Argument::Ints(&[0, 0]);
    [steps, paddings, dilations, is_transposed.into(), more, groups.into()]
}

#[test]
fn a_convolution_is_one_product_over_taps_and_channels() {
    let x = tensor(Float32, &[2, 40, 9, 8], &[2880, 72, 8, 1]);
    let weight = tensor(Float32, &[6, 40, 3, 3], &[360, 9, 3, 1]);
    let numbers = lists([&[1, 1], &[1, 1], &[1, 1]], false, 1);
    let forward = [&[x, weight, Argument::None][..], &numbers].concat();
    let recipe = compiles("convolution_overrideable", &forward, &[]);
    assert_eq!(recipe.results[0].size[..], [2, 6, 9, 8]);
    let texts: Vec<String> = recipe.launches.iter().map(|launch| launch.kernel.text()).collect();
    let products = texts.iter().filter(|text| text.contains("sum<t0, t1, k0>(w * x)")).count();
    assert_eq!(products, 1, "{texts:#?}");
    let grad = tensor(Float32, &[2, 6, 9, 8], &[432, 72, 8, 1]);
    let backward = [&[grad, x, weight][..], &numbers, &[MASK]].concat();
    let recipe = compiles("convolution_backward_overrideable", &backward, &[]);
    assert_eq!(recipe.results[1].size[..], [6, 40, 3, 3]);
}

#[test]
fn few_channels_have_one_product_with_all_of_a_window() {
    let x = tensor(BFloat16, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let weight = tensor(BFloat16, &[6, 3, 3, 3], &[27, 9, 3, 1]);
    let numbers = lists([&[2, 2], &[1, 1], &[1, 1]], false, 1);
    let forward = [&[x, weight, Argument::None][..], &numbers].concat();
    let recipe = compiles("convolution_overrideable", &forward, &[]);
    assert_eq!(recipe.results[0].size[..], [2, 6, 5, 4]);
    // The kernel's matrix, what is padding, nine copies, a product, and its results.
    assert_eq!(recipe.launches.len(), 13);
}

#[test]
fn a_convolution_of_single_places_multiplies_images_where_they_lie() {
    let x = tensor(Float32, &[2, 8, 9, 32], &[2304, 288, 32, 1]);
    let weight = tensor(Float32, &[6, 8, 1, 1], &[8, 1, 1, 1]);
    let bias = tensor(Float32, &[6], &[1]);
    let numbers = lists([&[1, 1], &[0, 0], &[1, 1]], false, 1);
    let forward = [&[x, weight, bias][..], &numbers].concat();
    let recipe = compiles("convolution_overrideable", &forward, &[]);
    assert_eq!((recipe.results.len(), recipe.launches.len()), (2, 2));
}

#[test]
fn a_transposed_convolution_goes_back() {
    let x = tensor(Float32, &[2, 6, 5, 4], &[120, 20, 4, 1]);
    let weight = tensor(Float32, &[6, 3, 3, 3], &[27, 9, 3, 1]);
    let numbers = lists([&[2, 2], &[1, 1], &[1, 1]], true, 2);
    let forward = [&[x, weight, Argument::None][..], &numbers].concat();
    let recipe = compiles("convolution_overrideable", &forward, &[]);
    assert_eq!(recipe.results[0].size[..], [2, 6, 9, 7]);
}

#[test]
fn gradients_that_are_not_asked_for_are_not_computed() {
    let x = tensor(Float32, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let weight = tensor(Float32, &[6, 3, 3, 3], &[27, 9, 3, 1]);
    let grad = tensor(Float32, &[2, 6, 7, 6], &[252, 42, 6, 1]);
    let numbers = lists([&[1, 1], &[0, 0], &[1, 1]], false, 1);
    let mask = Argument::Bools(&[false, false, true]);
    let backward = [&[grad, x, weight][..], &numbers, &[mask]].concat();
    let recipe = compiles("convolution_backward_overrideable", &backward, &[]);
    assert_eq!(recipe.launches.len(), 1);
    assert_eq!(recipe.results[0].size[..], [0]);
}

#[test]
fn channels_that_do_not_fit_are_declined() {
    let x = tensor(Float32, &[2, 4, 9, 8], &[288, 72, 8, 1]);
    let weight = tensor(Float32, &[6, 3, 3, 3], &[27, 9, 3, 1]);
    let numbers = lists([&[1, 1], &[0, 0], &[1, 1]], false, 1);
    let forward = [&[x, weight, Argument::None][..], &numbers].concat();
    let declined = recipe("convolution_overrideable", &forward, &[]).expect_err("four or three");
    assert_eq!(declined, Decline::Shapes);
}

#[test]
fn pools_compile() {
    let x = tensor(Float32, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let y = tensor(Float32, &[2, 3, 5, 4], &[60, 20, 4, 1]);
    let at = tensor(Int64, &[2, 3, 5, 4], &[60, 20, 4, 1]);
    let [size, step, one] = [&[3, 3][..], &[2, 2], &[1, 1]].map(Argument::Ints);
    let no = Argument::from(false);
    let none = Argument::None;
    let max = [x, size, step, one, one, no, y, at];
    compiles("max_pool2d_with_indices.out", &max, &[6, 7]);
    let max = [y, x, size, step, one, one, no, at, x];
    compiles("max_pool2d_with_indices_backward.grad_input", &max, &[8]);
    for divisor in [[true.into(), none], [no, none], [no, Argument::from(4)]] {
        let mean = [x, size, step, one, no, divisor[0], divisor[1], y];
        compiles("avg_pool2d.out", &mean, &[7]);
        let mean = [y, x, size, step, one, no, divisor[0], divisor[1], x];
        compiles("avg_pool2d_backward.grad_input", &mean, &[8]);
    }
    let counts = Argument::Ints(&[5, 4]);
    compiles("_adaptive_avg_pool2d", &[x, counts], &[]);
    compiles("_adaptive_avg_pool2d_backward", &[y, x], &[]);
    compiles("adaptive_max_pool2d.out", &[x, counts, y, at], &[2, 3]);
    compiles("adaptive_max_pool2d_backward.grad_input", &[y, x, at, x], &[3]);
}

#[test]
fn sizes_change_both_ways() {
    let x = tensor(BFloat16, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let y = tensor(BFloat16, &[2, 3, 18, 12], &[648, 216, 12, 1]);
    let size = Argument::Ints(&[18, 12]);
    let from = Argument::Ints(&[2, 3, 9, 8]);
    let none = Argument::None;
    compiles("upsample_nearest2d.out", &[x, size, none, none, y], &[4]);
    compiles("upsample_nearest2d_backward.grad_input", &[y, size, from, none, none, x], &[5]);
    for name in ["upsample_bilinear2d", "upsample_bicubic2d"] {
        for corners in [true, false] {
            let forward = [x, size, corners.into(), none, none, y];
            compiles(&format!("{name}.out"), &forward, &[5]);
            let backward = [y, size, from, corners.into(), none, none, x];
            compiles(&format!("{name}_backward.grad_input"), &backward, &[6]);
        }
    }
    let y = tensor(Float32, &[2, 3, 12, 11], &[396, 132, 11, 1]);
    let x = tensor(Float32, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let borders = Argument::Ints(&[1, 2, 0, 3]);
    for name in ["reflection_pad2d", "replication_pad2d"] {
        compiles(&format!("{name}.out"), &[x, borders, y], &[2]);
        compiles(&format!("{name}_backward"), &[y, x, borders], &[]);
    }
    let [size, one, two] = [&[3, 2][..], &[1, 1], &[2, 2]].map(Argument::Ints);
    let columns = compiles("im2col", &[x, size, one, one, two], &[]);
    assert_eq!(columns.results[0].size[..], [2, 18, 25]);
    let columns = tensor(Float32, &[2, 18, 25], &[450, 25, 1]);
    let image = compiles("col2im", &[columns, Argument::Ints(&[9, 8]), size, one, one, two], &[]);
    assert_eq!(image.results[0].size[..], [2, 3, 9, 8]);
}

#[test]
fn channels_are_normalised() {
    let x = tensor(BFloat16, &[2, 6, 9, 8], &[432, 72, 8, 1]);
    let list = tensor(Float32, &[6], &[1]);
    let none = Argument::None;
    for trains in [true, false] {
        let arguments = [x, list, none, list, list, trains.into(), 0.1.into(), 1e-5.into()];
        let recipe = compiles("native_batch_norm", &arguments, &[]);
        assert_eq!(recipe.results[1].size[..], [6]);
        let grads = [x, x, list, list, list, list, list, trains.into(), 1e-5.into(), MASK];
        compiles("native_batch_norm_backward", &grads, &[]);
    }
    let numbers = [2.into(), 6.into(), 72.into(), 3.into()];
    let arguments = [&[x, list, list][..], &numbers, &[1e-5.into()]].concat();
    let recipe = compiles("native_group_norm", &arguments, &[]);
    assert_eq!(recipe.results[1].size[..], [2, 3]);
    let rows = tensor(Float32, &[2, 3], &[3, 1]);
    let arguments = [&[x, x, rows, rows, list][..], &numbers, &[MASK]].concat();
    compiles("native_group_norm_backward", &arguments, &[]);
}

#[test]
fn a_batch_of_no_images_has_gradients_of_zero() {
    let x = tensor(Float32, &[0, 6, 9, 8], &[432, 72, 8, 1]);
    let y = tensor(Float32, &[0, 6, 5, 4], &[120, 20, 4, 1]);
    let list = tensor(Float32, &[6], &[1]);
    let rows = tensor(Float32, &[0, 3], &[3, 1]);
    let numbers = [0.into(), 6.into(), 72.into(), 3.into()];
    let arguments = [&[x, list, list][..], &numbers, &[1e-5.into()]].concat();
    assert!(compiles("native_group_norm", &arguments, &[]).launches.is_empty());
    let arguments = [&[x, x, rows, rows, list][..], &numbers, &[MASK]].concat();
    assert_eq!(compiles("native_group_norm_backward", &arguments, &[]).launches.len(), 2);
    assert!(compiles("_adaptive_avg_pool2d_backward", &[y, x], &[]).launches.is_empty());
    let [size, one, two] = [&[3, 2][..], &[1, 1], &[2, 2]].map(Argument::Ints);
    let columns = compiles("im2col", &[x, size, one, one, two], &[]);
    assert_eq!(
        (columns.results[0].size[..].to_vec(), columns.launches.len()),
        (vec![0, 36, 25], 0)
    );
    let columns = tensor(Float32, &[0, 36, 25], &[900, 25, 1]);
    let image = compiles("col2im", &[columns, Argument::Ints(&[9, 8]), size, one, one, two], &[]);
    assert_eq!((image.results[0].size[..].to_vec(), image.launches.len()), (vec![0, 6, 9, 8], 0));
}

#[test]
fn a_pool_reads_whole_views_of_an_image_for_each_place_of_its_windows() {
    let x = tensor(Float32, &[2, 3, 9, 8], &[216, 72, 8, 1]);
    let [size, step, padding, dilation] = [[3, 3], [2, 2], [1, 1], [1, 1]];
    let lists = [&size, &step, &padding, &dilation].map(|list| Argument::Ints(list));
    let y = tensor(Float32, &[2, 3, 5, 4], &[60, 20, 4, 1]);
    let at = tensor(Int64, &[2, 3, 5, 4], &[60, 20, 4, 1]);
    let call = [&[x][..], &lists, &[false.into(), y, at]].concat();
    let recipe = compiles("max_pool2d_with_indices.out", &call, &[6, 7]);
    // A frame around the image, nine places that are brought together and compared, the largest and where they are.
    assert_eq!(recipe.launches.len(), 2 + 9 * 2 + 2);
    let looks_up = |text: String| text.contains("x[");
    assert!(!recipe.launches.iter().any(|launch| looks_up(launch.kernel.text())));
}

#[test]
fn the_places_of_a_large_window_are_looked_up() {
    let x = tensor(Float32, &[2, 3, 28, 28], &[2352, 784, 28, 1]);
    let y = tensor(Float32, &[2, 3, 1, 1], &[3, 1, 1, 1]);
    let at = tensor(Int64, &[2, 3, 1, 1], &[3, 1, 1, 1]);
    let call = [x, Argument::Ints(&[1, 1]), y, at];
    let recipe = compiles("adaptive_max_pool2d.out", &call, &[2, 3]);
    assert_eq!(recipe.launches.len(), 1);
}
