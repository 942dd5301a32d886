// Package drafts tests the sockets of the draft API of libzmq. It needs a libzmq built with this API.
package drafts
