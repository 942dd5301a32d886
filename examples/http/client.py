import sys
import urllib.error
import urllib.request

import numpy as np
from dlbridge import tensorflow


def means(images):
    headers = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(sys.argv[1], tensorflow.encode(images), headers)
    with urllib.request.urlopen(request) as response:
        return tensorflow.decode_tensor(response.read())


images = np.zeros((2, 64, 64, 3), np.float32)
images[1] = 51
print(means(images))
try:
    means(images.astype(np.float64))
except urllib.error.HTTPError as error:
    print(error, "-", error.read().decode(), end="")
