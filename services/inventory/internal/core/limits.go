package core

import "context"

// ChangeLimit keeps who changes a limit and how, and then has it changed. The two are in different stores: what cannot be
// recorded is not done, and a record whose change failed tells of an attempt.
func (s *Service) ChangeLimit(ctx context.Context, who, action, name string, rule any, do func(context.Context) error) error {
	detail := map[string]any{"name": name}
	if rule != nil {
		detail["rule"] = rule
	}
	if err := s.store.Record(ctx, Change{At: s.now(), Who: who, Action: action, Object: "limit", Detail: detail}); err != nil {
		return err
	}
	return do(ctx)
}
