// Http is a server that takes a batch of images as a TensorProto, scales it in place, and answers with the mean of each image.
package main

import (
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/tensorflow"
	"github.com/dlbridge/dlbridge/dlpack"
)

const (
	protobuf = "application/x-protobuf" // the Content-Type of requests and answers
	maxBytes = 16 << 20                 // the largest request, and the most memory that a request with repeated values may take
)

// serve answers a request whose body is a TensorProto with another one.
func serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != protobuf {
		http.Error(w, "the body must be a TensorProto, with Content-Type: "+protobuf, http.StatusUnsupportedMediaType)
		return
	}
	means, err := meansOf(http.MaxBytesReader(w, r.Body, maxBytes), r.ContentLength)
	if err != nil { // the client does not get the names of Go functions, which are for the author of the server
		http.Error(w, elements.WithoutRemedy(err), status(err))
		return
	}
	defer means.Close()
	w.Header().Set("Content-Type", protobuf)
	if err := tensorflow.WriteTensor(w, means); err != nil {
		log.Print(err) // the client has gone
	}
}

// status returns the HTTP status for an error of a request.
func status(err error) int {
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &body), errors.Is(err, tensorflow.ErrLimit):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, dlpack.ErrMemory):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// meansOf reads images of float32 (number, height, width, 3 colours) from 0 to 255, scales them to 0 to 1 in the memory into which
// they were read, and returns the mean of each image.
func meansOf(body io.Reader, size int64) (*dlpack.Tensor, error) {
	images, err := tensorflow.ReadTensor(body, size, tensorflow.Limit(maxBytes))
	if err != nil {
		return nil, err
	}
	defer images.Close()
	if err := images.Require(dlpack.Float32, -1, -1, -1, 3); err != nil { // -1 stands for any size, also for 0
		return nil, err
	}
	n := images.Shape()[0]
	if n > 0 && images.NumElements() == 0 { // n may be any number here, far more than there is memory for
		return nil, errors.New("images without pixels have no mean")
	}
	means := make([]float32, n)
	err = dlpack.Use(images, func(pixels []float32) error {
		for i := range means {
			size, sum := len(pixels)/len(means), 0.0
			image := pixels[i*size:][:size]
			for j := range image {
				image[j] /= 255
				sum += float64(image[j])
			}
			means[i] = float32(sum / float64(size))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dlpack.FromSlice(means)
}

func main() {
	address := flag.String("address", "localhost:8080", "where to listen")
	flag.Parse()
	http.HandleFunc("POST /means", serve)
	server := http.Server{Addr: *address, ReadTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
