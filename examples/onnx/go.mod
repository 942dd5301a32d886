module github.com/dlbridge/dlbridge/examples/onnx

go 1.26

replace (
	github.com/dlbridge/dlbridge => ../..
	github.com/dlbridge/dlbridge/bridge/onnxruntime => ../../bridge/onnxruntime
)

require (
	github.com/dlbridge/dlbridge v0.0.0-00010101000000-000000000000
	github.com/dlbridge/dlbridge/bridge/onnxruntime v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/yalue/onnxruntime_go v1.35.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
