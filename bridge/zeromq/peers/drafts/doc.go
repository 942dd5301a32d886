// Package drafts tests the sockets of the draft API of libzmq. It needs a libzmq that is built with it.
package drafts
