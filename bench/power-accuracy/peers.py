"""The original's ten trainers with its settings, in scikit-learn, SciPy and XGBoost: FILE rows|phases. Prints JSON. Run by `run`."""

import json
import math
import sys

import numpy as np
import pandas
import xgboost
from scipy.optimize import curve_fit
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

file, split = sys.argv[1:]
table = pandas.read_csv(file)
features = sorted(name for name in table if name not in ("timestamp", "node_type", "id") and not name.startswith(("Unnamed", "packge_ratio")) and not name.endswith("_power"))
rows = np.arange(len(table))
test = rows % 5 == 0 if split == "rows" else np.isin(rows * 10 // len(table), (2, 5, 8))
x = table[features].to_numpy(float)
largest = np.abs(x[~test]).max(axis=0)
x = x / np.where(largest > 0, largest, 1)

MAIN = {"dram": ("cache_miss", "bpf_page_cache_hit")}
OTHER = ("cpu_instructions", "bpf_cpu_time_ms", "accelerator_intel_qat", "bpf_cpu_time_us")


def curve(form, start):
    def learn(a, b, t, main):
        low, high, spread = b.min(), b.max(), b.std()
        weights, _ = curve_fit(form, a[:, main], b, p0=start(low, high, spread), maxfev=30000)
        return form(t[:, main], *weights)
    return learn


def plain(make):
    return lambda a, b, t, main: make().fit(a, b).predict(t)


TRAINERS = {
    "PolynomialRegressionTrainer": plain(lambda: make_pipeline(PolynomialFeatures(2), LinearRegression())),
    "GradientBoostingRegressorTrainer": plain(lambda: GradientBoostingRegressor(random_state=0)),
    "KNeighborsRegressorTrainer": plain(lambda: KNeighborsRegressor(6)),
    "LinearRegressionTrainer": plain(lambda: LinearRegression(positive=True)),
    "SVRRegressorTrainer": plain(lambda: SVR(C=1.0, epsilon=0.2)),
    "XgboostFitTrainer": plain(lambda: xgboost.XGBRegressor(n_estimators=100, learning_rate=0.1, n_jobs=1)),
    "SGDRegressorTrainer": plain(lambda: SGDRegressor(random_state=0)),
    "LogarithmicRegressionTrainer": curve(lambda s, a, b, c: a * np.log(b * s + 1) + c, lambda low, high, _: [high - low, 1, low]),
    "LogisticRegressionTrainer": curve(lambda s, a, m, k, c: a / (1 + np.exp(-k * (s - m))) + c,
                                       lambda low, high, spread: [high - low, 0.5, math.floor((high - low) / spread), low]),
    "ExponentialRegressionTrainer": curve(lambda s, a, b, c: a * np.exp(b * s) + c,
                                          lambda low, high, _: [math.floor((high - low) / math.e), 1, low - math.floor((high - low) / math.e)]),
}
out = []
for column in (name for name in table if name.endswith("_power") and table[name].max() > 1):
    component = column.removesuffix("_power")
    y = table[column].to_numpy(float)
    main = next((features.index(name) for name in MAIN.get(component, OTHER) if name in features), 0)
    for name, learn in TRAINERS.items():
        try:
            said = np.maximum(learn(x[~test], y[~test], x[test], main), 0)
        except (RuntimeError, ValueError) as error:
            out.append({"trainer": name, "component": component, "failed": str(error)})
            continue
        missed, above = np.abs(said - y[test]), y[test] > 1
        out.append({"trainer": name, "component": component, "mae": missed.mean(), "mape": (missed[above] / y[test][above]).mean()})
print(json.dumps(out))
