package core

import "context"

// ChangeLimit records the change of a limit in the change log, and then runs it. The two are in different stores: a
// change that cannot be recorded is not made, and a recorded change that failed was an attempt.
func (s *Service) ChangeLimit(
	ctx context.Context, who, action, name string, rule any, do func(context.Context) error,
) error {
	detail := map[string]any{"name": name}
	if rule != nil {
		detail["rule"] = rule
	}
	if err := s.store.Record(ctx, Change{
		At: s.clock(), Who: who, Role: RoleOperator, Action: action, Object: "limit", Detail: detail,
	}); err != nil {
		return err
	}
	return do(ctx)
}
