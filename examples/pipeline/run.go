package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A process is a process of the pipeline, with its standard output.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

func start(name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // ends with this process
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, bufio.NewReader(out)}, cmd.Start()
}

// resident returns the resident memory of a process in bytes.
func resident(p *process) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	fmt.Sscan(string(text), &size, &pages)
	return pages * int64(os.Getpagesize())
}

// line returns the next line of the output. If the process binds an endpoint, its first line is that endpoint.
func (p *process) line() (string, error) {
	text, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%v has ended: %w", p.Args, err)
	}
	return text[:len(text)-1], nil
}

// workers keeps processes running: a process that ends or is killed is started again.
type workers struct {
	mu      sync.Mutex
	running []*process // nil: it is being started
	killed  int
	stopped bool
	all     sync.WaitGroup
}

func (w *workers) keep(i int, name string, args []string) {
	w.all.Go(func() {
		for {
			w.mu.Lock()
			if w.stopped {
				w.mu.Unlock()
				return
			}
			p, err := start(name, args...)
			if err != nil {
				w.mu.Unlock()
				fmt.Fprintln(os.Stderr, err)
				return
			}
			w.running[i] = p
			w.mu.Unlock()
			io.Copy(io.Discard, p.out)
			p.Wait()
		}
	})
}

// kill ends one worker in the middle of its work.
func (w *workers) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.running[rand.IntN(len(w.running))]; p != nil {
		p.Process.Kill()
		w.killed++
	}
}

func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, p := range w.running {
		if p != nil {
			p.Process.Kill()
		}
	}
	w.mu.Unlock()
	w.all.Wait()
}

// run starts all processes, kills workers, and reports.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	producers := flags.Int("producers", 2, "number of producers")
	inGo := flags.Int("workers", 1, "number of workers in Go")
	inPython := flags.Int("python-workers", 1, "number of workers in Python")
	python := flags.String("python", "build/venv/bin/python", "Python with dlbridge, NumPy and pyzmq")
	script := flags.String("script", "examples/pipeline/worker.py", "the worker in Python")
	messages := flags.Uint64("messages", 0, "number of tasks of each producer; 0 is no limit")
	duration := flags.Duration("for", 0, "how long tasks are made; 0 is no limit")
	bytes := flags.Int("bytes", 1<<20, "size of the tensor of a task")
	random := flags.Bool("random", false, "random sizes up to that size")
	kill := flags.Duration("kill", 400*time.Millisecond, "how often a worker is killed; 0 is never")
	retry := flags.Duration("retry", 2*time.Second, "how long a task may take before it is sent again")
	transport := flags.String("transport", "tcp", "tcp, ipc, or shm: ipc with the elements in shared memory")
	flags.Parse(args)

	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pipeline")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	endpoint := func(name, address string) string {
		if *transport != "tcp" {
			return "ipc://" + filepath.Join(dir, name)
		}
		return "tcp://" + address + ":*"
	}

	var made []*process
	collect := []string{"collector", "-bind", endpoint("c", "127.0.0.3")}
	var from []string
	for i := range *producers {
		p, err := start(self, "producer", "-bind", endpoint("p"+strconv.Itoa(i), "127.0.0.2"), "-number", strconv.Itoa(i),
			"-messages", fmt.Sprint(*messages), "-for", fmt.Sprint(*duration), "-bytes", strconv.Itoa(*bytes), fmt.Sprint("-random=", *random),
			"-retry", fmt.Sprint(*retry), fmt.Sprint("-shared=", *transport == "shm"))
		if err != nil {
			return err
		}
		address, err := p.line()
		if err != nil {
			return err
		}
		made, from = append(made, p), append(from, address)
		collect = append(collect, "-producer", address)
	}
	collecting, err := start(self, collect...)
	if err != nil {
		return err
	}
	to, err := collecting.line()
	if err != nil {
		return err
	}
	inFlight := make([]atomic.Int64, len(made))
	tallies := make(chan tally)
	go func() {
		defer close(tallies)
		decoder := json.NewDecoder(collecting.out)
		for {
			var t tally
			if decoder.Decode(&t) != nil {
				return
			}
			if !t.End {
				sum := int64(0)
				for i := range inFlight {
					sum += inFlight[i].Load()
				}
				fmt.Printf("%d results, %.2f GB/s, %d in flight, %d missing, %d duplicates, %d MiB resident\n",
					t.Results, t.GBPerS, sum, t.Missing, t.Duplicates, resident(collecting)>>20)
			}
			tallies <- t
		}
	}()

	work := &workers{running: make([]*process, *inGo+*inPython)}
	for i := range work.running {
		if i < *inGo {
			args := []string{"worker", "-to", to}
			for _, endpoint := range from {
				args = append(args, "-from", endpoint)
			}
			work.keep(i, self, args)
		} else {
			work.keep(i, *python, append([]string{*script, to, "2"}, from...))
		}
	}
	ended := make(chan error, len(made))
	for i, p := range made {
		go func() {
			for {
				text, err := p.line()
				if err != nil {
					break
				}
				n, _ := strconv.ParseInt(text, 10, 64)
				inFlight[i].Store(n)
			}
			inFlight[i].Store(0)
			ended <- p.Wait()
		}()
	}

	left := len(made)
	var last tally
	var ticks <-chan time.Time
	if *kill > 0 {
		ticks = time.Tick(*kill)
	}
	for left > 0 && err == nil {
		select {
		case err = <-ended:
			left--
		case last = <-tallies:
		case <-ticks:
			work.kill()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	work.stop()
	collecting.Process.Signal(syscall.SIGTERM)
	for t := range tallies {
		last = t
	}
	err = errors.Join(err, collecting.Wait())
	fmt.Printf("%d results, %.2f GB/s, %d missing, %d workers killed, %d exports, %d imports and %d mappings left in the collector\n",
		last.Results, last.GBPerS, last.Missing, work.killed, last.Exports, last.Imports, last.Mappings)
	if err == nil && (last.Missing != 0 || last.Exports != 0 || last.Imports != 0 || last.Mappings != 0) {
		err = errors.New("something is left")
	}
	return err
}
