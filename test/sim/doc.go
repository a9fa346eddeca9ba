// Package sim simulates whole sales in one process with a simulated clock: the three unchanged services on an embedded
// Redis, SQLite and the in-process bus, with buyers, a merchant and its shop, a payment provider and an operator.
// Every call that leaves a service may fail, be delayed, be repeated, or be the last one before the process ends. A
// seed decides which call fails, and how. At the end of a sale the test checks all promises of Flashsale.
//
//	go test ./test/sim                                  some hundred seeds
//	make sim SEEDS=5000                                 that many seeds; every fault point must be hit
//	SIM_SEED=123 go test ./test/sim -run TestSim -v     one seed, with the history of the purchases concerned
//
// A seed fixes the sale, the callers, and the fault of each call of each fault point. The order of goroutines and the
// services' jitter are not fixed: SIM_REPEAT=50 runs a seed 50 times.
package sim
