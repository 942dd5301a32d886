module github.com/dlbridge/dlbridge/bridge/zeromq/peers

go 1.26

replace github.com/dlbridge/dlbridge => ../../..

require (
	github.com/dlbridge/dlbridge v0.0.0-00010101000000-000000000000
	github.com/go-zeromq/zmq4 v0.17.0
	github.com/pebbe/zmq4 v1.4.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/text v0.15.0 // indirect
)
