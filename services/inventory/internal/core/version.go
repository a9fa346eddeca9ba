package core

import "flashsale.internal/pkg/contract"

// requireVersion refuses a change with state_conflict (412) if it is for another version than the object has. A nil
// version is that of a change without a condition.
func requireVersion(required *int64, version int64) error {
	if required == nil || *required == version {
		return nil
	}
	return contract.Refuse(contract.CodeStateConflict, "it was changed meanwhile: read it again").
		With("version", version).FailedPrecondition()
}
