package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// WorkerLeases bounds the leases of worker ids.
type WorkerLeases struct {
	First, End int           // ids: First <= id < End
	Term       time.Duration // of a lease
}

// DirectWorkers are the worker ids that processes of seckill use while Redis is unavailable. Redis leases the ids below
// them.
func DirectWorkers() WorkerLeases {
	return WorkerLeases{First: 224, End: 256, Term: 3 * time.Second}
}

// LeaseWorker leases a worker id, or renews the lease of one.
func (s *Service) LeaseWorker(ctx context.Context, r contract.WorkerLease) (contract.LeasedWorker, error) {
	if r.Owner == "" || len(r.Owner) > 64 {
		return contract.LeasedWorker{}, contract.InvalidField("owner", "must have 1 to 64 characters")
	}
	return s.store.LeaseWorker(ctx, DirectWorkers(), r)
}
