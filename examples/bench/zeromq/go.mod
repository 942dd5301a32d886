module github.com/dlbridge/dlbridge/examples/bench/zeromq

go 1.26

replace github.com/dlbridge/dlbridge => ../../..

require (
	github.com/dlbridge/dlbridge v0.0.0-00010101000000-000000000000
	github.com/pebbe/zmq4 v1.4.0
)
