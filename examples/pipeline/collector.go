package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/dlbridge/dlbridge/bridge/shm"
	"github.com/dlbridge/dlbridge/bridge/zeromq"
	"github.com/dlbridge/dlbridge/dlpack"
)

// A tally counts the results that the collector has received. It is written as a line of JSON each second and at the
// end.
type tally struct {
	Results    int     `json:"results"` // without duplicates
	Duplicates int     `json:"duplicates"`
	Missing    int     `json:"missing"` // tasks without a result, before the last one with a result
	GBPerS     float64 `json:"gbPerS"`  // since the last line, or since the first result at the end
	Exports    int64   `json:"exports"`
	Imports    int64   `json:"imports"`
	Mappings   int64   `json:"mappings"` // of shared memory
	End        bool    `json:"end"`
}

// collector checks results, and acknowledges each result to its producer.
func collector(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("collector", flag.ExitOnError)
	bind := flags.String("bind", "tcp://127.0.0.3:*", "endpoint for workers")
	var from list
	flags.Var(&from, "producer", "endpoint of producer 0, then of 1, and so on")
	flags.Parse(args)

	c, err := zeromq.NewContext()
	if err != nil {
		return err
	}
	defer c.Close()
	pull, err := c.NewSocket(zeromq.Pull, zeromq.ReceiveHighWater(8))
	if err != nil {
		return err
	}
	address, err := pull.Bind(*bind)
	if err != nil {
		return err
	}
	fmt.Println(address)
	var producers []*zeromq.Socket
	for _, endpoint := range from {
		s, err := dial(c, endpoint)
		if err != nil {
			return err
		}
		producers = append(producers, s)
	}

	type task struct{ origin, seqno uint64 }
	missing := map[task]bool{}
	made := make([]uint64, len(from)) // the known tasks of each producer
	var sum tally
	var first, last time.Time
	var bytes, total float64
	report := func(bytes float64, since time.Time, end bool) error {
		sum.GBPerS, sum.End = 0, end
		if bytes > 0 {
			sum.GBPerS = bytes / 1e9 / time.Since(since).Seconds()
		}
		stats := dlpack.ReadStats()
		sum.Exports, sum.Imports, sum.Mappings = stats.Exports, stats.Imports, shm.Mappings()
		return json.NewEncoder(os.Stdout).Encode(sum)
	}
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		m, err := pull.Recv(short, zeromq.Aligned())
		cancel()
		if err == nil {
			if first.IsZero() {
				first, last = time.Now(), time.Now()
			}
			id := task{m.Origin, m.Seqno}
			if m.Origin >= uint64(len(producers)) || len(m.Tensors) != 1 {
				m.Close()
				return fmt.Errorf("the result of task %v has %d tensors, want 1", id, len(m.Tensors))
			}
			if err := fetch(ctx, m); errors.Is(err, shm.ErrNotOffered) { // the worker was killed; the task is sent again
				m.Close()
				continue
			} else if err != nil {
				m.Close()
				return err
			}
			size := float64(m.Tensors[0].NumBytes())
			err = check(m.Tensors[0], m.Seqno)
			m.Close()
			if err != nil {
				return err
			}
			switch {
			case id.seqno >= made[id.origin]:
				for n := made[id.origin]; n < id.seqno; n++ {
					missing[task{m.Origin, n}] = true
				}
				made[id.origin] = id.seqno + 1
				sum.Results++
			case missing[id]:
				delete(missing, id)
				sum.Results++
			default:
				sum.Duplicates++
			}
			sum.Missing = len(missing)
			bytes, total = bytes+size, total+size
			if err := producers[id.origin].SendFrames(ctx, doneFrames(id.seqno)); err != nil && ctx.Err() == nil {
				return err
			}
		} else if short.Err() == nil {
			return err
		}
		if !last.IsZero() && time.Since(last) >= time.Second {
			if err := report(bytes, last, false); err != nil {
				return err
			}
			last, bytes = time.Now(), 0
		}
	}
	return report(total, first, true)
}
