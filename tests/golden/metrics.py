"""Writes metrics.json: what the metrics of Keras, and those of scikit-learn by class, say of 103 examples that come in batches of 12, so that the last one is short;
beside each the report that is to say the same (tests/e2e/golden_metrics.py), and the names of all that Keras lists (coverage.md).

    KERAS_BACKEND=torch bench/peers/.venv/bin/python tests/golden/metrics.py > tests/golden/metrics.json
"""
import json
import platform

import keras
import numpy as np
import sklearn
import sklearn.metrics as sk

N, BATCH, CLASSES = 103, 12, 5
random = np.random.default_rng(11)
target = (random.random(N) < 0.4).astype(np.float32)
probability = np.clip(0.35 * target + 0.65 * random.random(N), 0, 1).astype(np.float32)
weight = random.uniform(0.5, 2, N).astype(np.float32)
label = random.integers(0, CLASSES - 1, N).astype(np.int32)  # of the last class there is no example
scores = random.standard_normal((N, CLASSES)).astype(np.float32)
scores[np.arange(N), label] += 1
wide = (random.random((N, 3)) < 0.5).astype(np.float32)
wide_scores = random.random((N, 3)).astype(np.float32)
y = random.standard_normal((N, 4)).astype(np.float32) * np.float32([1, 2, 0.5, 3])
predicted = (y + random.standard_normal((N, 4))).astype(np.float32)
region = random.integers(0, 3, (N, 6)).astype(np.int32)
guessed_region = np.where(random.random((N, 6)) < 0.6, region, random.integers(0, 4, (N, 6))).astype(np.int32)
data = {"target": target, "probability": probability, "weight": weight, "label": label, "scores": scores, "wide": wide, "wide_scores": wide_scores, "y": y,
        "predicted": predicted, "region": region, "guessed_region": guessed_region}
one_hot = np.eye(CLASSES, dtype=np.float32)[label]
guess = scores.argmax(1)
m = keras.metrics


def of_batches(metric, truth, guessed, weights=None):
    for at in range(0, N, BATCH):
        rows = slice(at, at + BATCH)
        metric.update_state(truth[rows], guessed[rows], None if weights is None else weights[rows])
    return np.asarray(metric.result(), np.float64)


binary = (target, probability)
classes = (label, scores)
hot = (one_hot, scores)
CASES = [
    ("accuracy(label, argmax(scores))", m.Accuracy(), (label, guess)),
    ("accuracy(label, argmax(scores), weight: weight)", m.Accuracy(), (label, guess, weight)),
    ("binary_accuracy(target, probability)", m.BinaryAccuracy(), binary),
    ("binary_accuracy(target > 0, probability, threshold: 0.3)", m.BinaryAccuracy(threshold=0.3), binary),
    ("categorical_accuracy(one_hot(label, 5), scores)", m.CategoricalAccuracy(), hot),
    ("sparse_categorical_accuracy(label, scores, weight: weight)", m.SparseCategoricalAccuracy(), (*classes, weight)),
    ("top_k_categorical_accuracy(one_hot(label, 5), scores, k: 2)", m.TopKCategoricalAccuracy(k=2), hot),
    ("sparse_top_k_categorical_accuracy(label, scores, k: 3)", m.SparseTopKCategoricalAccuracy(k=3), classes),
    ("true_positives(target, probability)", m.TruePositives(), binary),
    ("false_positives(target, probability, threshold: [0.2, 0.5, 0.8])", m.FalsePositives(thresholds=[0.2, 0.5, 0.8]), binary),
    ("true_negatives(target, probability, weight: weight)", m.TrueNegatives(), (*binary, weight)),
    ("false_negatives(target, probability, threshold: 0.7)", m.FalseNegatives(thresholds=0.7), binary),
    ("precision(target, probability)", m.Precision(), binary),
    ("precision(target, probability, threshold: 0.999)", m.Precision(thresholds=0.999), binary),
    ("precision(wide, wide_scores)", m.Precision(), (wide, wide_scores)),
    ("recall(target, probability, threshold: [0.1, 0.4, 0.9])", m.Recall(thresholds=[0.1, 0.4, 0.9]), binary),
    ("recall(target, probability, weight: weight)", m.Recall(), (*binary, weight)),
    ("auc(target, probability)", m.AUC(), binary),
    ("auc(target, probability, num_thresholds: 50, weight: weight)", m.AUC(num_thresholds=50), (*binary, weight)),
    ("auc(target, probability, summation_method: minoring)", m.AUC(summation_method="minoring"), binary),
    ("auc(wide, wide_scores, summation_method: majoring)", m.AUC(summation_method="majoring"), (wide, wide_scores)),
    ("auc(target, probability, curve: pr)", m.AUC(curve="PR"), binary),
    ("auc(target, probability, curve: pr, summation_method: minoring)", m.AUC(curve="PR", summation_method="minoring"), binary),
    ("sensitivity_at_specificity(target, probability, 0.7)", m.SensitivityAtSpecificity(0.7), binary),
    ("specificity_at_sensitivity(target, probability, 0.8)", m.SpecificityAtSensitivity(0.8), binary),
    ("precision_at_recall(target, probability, 0.75)", m.PrecisionAtRecall(0.75), binary),
    ("recall_at_precision(target, probability, 0.6)", m.RecallAtPrecision(0.6), binary),
    ("f1_score(one_hot(label, 5), scores)", m.F1Score(), hot),
    ("f1_score(one_hot(label, 5), scores, average: macro)", m.F1Score(average="macro"), hot),
    ("f1_score(one_hot(label, 5), scores, average: weighted)", m.F1Score(average="weighted"), hot),
    ("f1_score(wide, wide_scores, average: micro, threshold: 0.5)", m.F1Score(average="micro", threshold=0.5), (wide, wide_scores)),
    ("fbeta_score(wide, wide_scores, beta: 2.0, threshold: 0.4)", m.FBetaScore(beta=2.0, threshold=0.4), (wide, wide_scores)),
    ("mean_iou(region, guessed_region, 4)", m.MeanIoU(4), (region, guessed_region)),
    ("mean_iou(region, guessed_region, 6)", m.MeanIoU(6), (region, guessed_region)),
    ("iou(region, guessed_region, 4)[1]", m.IoU(4, [1]), (region, guessed_region)),
    ("binary_iou(target, probability, threshold: 0.5)", m.BinaryIoU(), binary),
    ("one_hot_mean_iou(one_hot(label, 5), scores)", m.OneHotMeanIoU(CLASSES), hot),
    ("iou(label, argmax(scores), 5)[2]", m.OneHotIoU(CLASSES, [2]), hot),
    ("root_mean_squared_error(y, predicted)", m.RootMeanSquaredError(), (y, predicted)),
    ("r2_score(y, predicted)", m.R2Score(), (y, predicted)),
    ("r2_score(y, predicted, average: each)", m.R2Score(class_aggregation=None), (y, predicted)),
    ("r2_score(y, predicted, average: variance)", m.R2Score(class_aggregation="variance_weighted_average"), (y, predicted)),
    ("pearson_correlation(y, predicted)", m.PearsonCorrelation(), (y, predicted)),
    ("mean(mean_squared_error(y, predicted))", m.MeanSquaredError(), (y, predicted)),
    ("mean(mean_absolute_error(y, predicted))", m.MeanAbsoluteError(), (y, predicted)),
    ("mean(mean_absolute_percentage_error(y, predicted))", m.MeanAbsolutePercentageError(), (y, predicted)),
    ("mean(mean_squared_logarithmic_error(wide, wide_scores))", m.MeanSquaredLogarithmicError(), (wide, wide_scores)),
    ("mean(log_cosh(y, predicted))", m.LogCoshError(), (y, predicted)),
    ("0 - mean(cosine_similarity(y, predicted))", m.CosineSimilarity(), (y, predicted)),
    ("mean(poisson(wide, wide_scores))", m.Poisson(), (wide, wide_scores)),
    ("mean(kl_divergence(one_hot(label, 5), softmax(scores)))", m.KLDivergence(), (one_hot, np.asarray(keras.ops.softmax(scores)))),
    ("mean(hinge(wide, wide_scores))", m.Hinge(), (wide, wide_scores)),
    ("mean(squared_hinge(wide, wide_scores))", m.SquaredHinge(), (wide, wide_scores)),
    ("mean(categorical_hinge(one_hot(label, 5), scores))", m.CategoricalHinge(), hot),
    ("mean(sigmoid_crossentropy(wide, wide_scores))", m.BinaryCrossentropy(from_logits=True), (wide, wide_scores)),
    ("mean(categorical_crossentropy(one_hot(label, 5), scores))", m.CategoricalCrossentropy(from_logits=True), hot),
    ("mean(sparse_categorical_crossentropy(label, scores))", m.SparseCategoricalCrossentropy(from_logits=True), classes),
]
numbers = dict(labels=range(CLASSES), zero_division=0)
BY_CLASS = [
    ("confusion_matrix(label, argmax(scores), 5)", sk.confusion_matrix(label, guess, labels=range(CLASSES))),
    ("confusion_matrix(label, argmax(scores), 5, weight: weight)", sk.confusion_matrix(label, guess, labels=range(CLASSES), sample_weight=weight)),
    *((f"class_precision(label, argmax(scores), 5, average: {average})", sk.precision_score(label, guess, average=name, **numbers))
      for average, name in (("each", None), ("macro", "macro"), ("micro", "micro"), ("weighted", "weighted"))),
    *((f"class_recall(label, argmax(scores), 5, average: {average})", sk.recall_score(label, guess, average=name, **numbers))
      for average, name in (("each", None), ("macro", "macro"), ("micro", "micro"), ("weighted", "weighted"))),
    *((f"class_f1(label, argmax(scores), 5, average: {average}, weight: weight)", sk.f1_score(label, guess, average=name, sample_weight=weight, **numbers))
      for average, name in (("each", None), ("macro", "macro"), ("micro", "micro"), ("weighted", "weighted"))),
    ("mean(class_recall(label, argmax(scores), 5)[:4])", sk.balanced_accuracy_score(label, guess)),
]
print(json.dumps({
    "made_with": f"Python {platform.python_version()}, Keras {keras.__version__} on {keras.backend.backend()}, scikit-learn {sklearn.__version__}, "
                 f"NumPy {np.__version__}",
    "batch": BATCH,
    "data": {name: array.tolist() for name, array in data.items()},
    "reports": {report: of_batches(metric, *arrays).tolist() for report, metric, arrays in CASES} |
               {report: np.asarray(value, np.float64).tolist() for report, value in BY_CLASS},
    "keras": [name for name in dir(keras.metrics) if name[0].isupper()],
}))
