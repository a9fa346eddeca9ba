// Generated from services/inventory/api/openapi.yaml by `npm run types`. Do not edit.

export interface paths {
    "/v1/merchant/products": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Products, newest first */
        get: operations["listProducts"];
        put?: never;
        /** Create a product with its SKUs */
        post: operations["createProduct"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/currencies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The currencies of ISO 4217 */
        get: operations["listCurrencies"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/products/{product_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        get: operations["getProduct"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Change the given fields; SKUs with sku_id are changed, those without are added */
        patch: operations["patchProduct"];
        trace?: never;
    };
    "/v1/merchant/products/by-ref/{ref}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                ref: string;
            };
            cookie?: never;
        };
        get?: never;
        /**
         * Create the product that has this ref, or make it like the body; may be repeated
         * @description SKUs are matched by their refs, which all SKUs of the body need. SKUs that the body lacks stay as they are, since
         *     sales refer to them. A product that is like the body already keeps its version. An archived product stays
         *     archived.
         */
        put: operations["putProduct"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/products/{product_id}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Offer the product's SKUs for no further sale; may be repeated
         * @description A SKU of an archived product is refused with 400, with its field, in a new sale, in the changed items of a draft, at
         *     publishing and when a sale is duplicated. Published sales go on. Archived SKUs still count for the quota.
         */
        post: operations["archiveProduct"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/products/{product_id}/unarchive": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Offer the product's SKUs again; may be repeated */
        post: operations["unarchiveProduct"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/profile": {
        parameters: {
            query?: {
                /** @description the merchant of the profile, that of the token if it is absent; required of an operator whose token names none. 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["ProfileOf"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What buyers read of a merchant
         * @description A merchant who has stored no profile has one without texts, of version 0; buyers read nothing then.
         */
        get: operations["getProfile"];
        /**
         * Replace what buyers read of a merchant, in all sales of the merchant
         * @description Buyers of running sales read it about 3 s later, once Redis is available. If-Match "0" stores the first profile
         *     only.
         */
        put: operations["putProfile"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sales, newest first */
        get: operations["listActivities"];
        put?: never;
        /** Create a sale as a draft */
        post: operations["createActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get: operations["getActivity"];
        put?: never;
        post?: never;
        /**
         * Delete a draft
         * @description Its Idempotency-Key creates nothing more: a call with it gets 404. The log of changes keeps who deleted it.
         */
        delete: operations["deleteActivity"];
        options?: never;
        head?: never;
        /**
         * Change a draft; of a published sale only title, description, image_url, notice, and ends_at to a later time
         * @description A change of nothing but the notice succeeds without Redis; buyers read it once Redis is available.
         */
        patch: operations["patchActivity"];
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/duplicate": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a draft like this sale, which may be in any state
         * @description The draft belongs to the same merchant. It has the same title, texts, times, rules, SKUs and prices, and as stock
         *     the total units of each SKU, adjustments included. A SKU whose units were all withdrawn is left out.
         */
        post: operations["duplicateActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/publish": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Fill the gate and open at starts_at; may be repeated */
        post: operations["publishActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop selling; in effect at the gate when the call returns; may be repeated */
        post: operations["pauseActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Resume selling; in effect at the gate when the call returns; may be repeated */
        post: operations["resumeActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/end": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the sale before ends_at; existing reservations stay valid; may be repeated */
        post: operations["endActivity"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/stock-adjustments": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Add units to a live sale or withdraw them, in the database and in the gate */
        post: operations["adjustStock"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/stock": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /** Stock according to the database, the gate and the journal */
        get: operations["getStock"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /** Changes by merchants and operators, newest first */
        get: operations["listChanges"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/adjustments": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /** Adjustments of the stock, newest first */
        get: operations["listAdjustments"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/board": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /** The sale at this moment, and its seconds of the last 15 minutes */
        get: operations["getBoard"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/board/events": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /**
         * The board as server-sent events
         * @description `event: board` with a Board comes first. Each second follows `event: point` with a BoardUpdate: one for each new
         *     point, and one for each point of the last 15 s that late counts have changed. It replaces the point of the same
         *     second. Every 5 s follows `event: stock` with a StockView. A comment comes every 15 s. After 10 minutes the stream ends
         *     with `event: end`; the client connects again. A user may have 4 streams open.
         */
        get: operations["streamBoard"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/reconciliations": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /** Reconciliations that repaired something or that an operator requested, newest first */
        get: operations["listReconciliations"];
        put?: never;
        /**
         * Compare gate, ledger and allowances and repair mismatches (role operator)
         * @description Reservations in flight are not mismatches. A reconciliation makes several comparisons, so it takes some seconds.
         *     While another reconciliation of the activity runs, the call waits for a short time, then gets 503.
         */
        post: operations["reconcile"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/orders": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /**
         * Reservations of the ledger with their orders, newest first; the whole list as CSV with Accept text/csv
         * @description State, amount and contact come from the order service. While it does not respond, the list is served without
         *     them: null, or empty in CSV. CSV begins with the mark of UTF-8; a cell that a spreadsheet would evaluate, or a
         *     number that it would round, has a ' in front, as each phone number and order_sn has. Amounts are decimals of their
         *     currency.
         *
         *     With changed_since it is the feed of this sale, as `GET /v1/merchant/orders` is that of all sales: 400 with
         *     user_id, order_sn, state, or as CSV.
         */
        get: operations["listActivityOrders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/orders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The feed of all sales of a merchant, oldest change first
         * @description One item for each reservation of the ledger that changed at changed_since or later, in its present state. Follow
         *     next_cursor with the same changed_since; a page may have fewer items than limit, or none. The last page has
         *     next_since instead, the changed_since of the next call: a minute before the first page, as transactions commit
         *     out of order. So an item may be repeated. Of the items of an order_sn that with the latest changed_at counts. A
         *     state that lasts less than a second may be left out. Of more than 100 sales that changed, the first 100 come
         *     first, then the next: the oldest change comes first among the sales of such a group.
         */
        get: operations["listOrders"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/orders/{order_sn}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                order_sn: string;
            };
            cookie?: never;
        };
        /**
         * A reservation of this activity with its order, payments, refunds and changes
         * @description Without an order, order_state is null and the lists of payments and refunds are empty: the order is not created
         *     yet, or never will be. 404 for an order_sn of another activity. 503 while the order service does not respond, and
         *     while orders are imported after a restore and this one is not there yet.
         */
        get: operations["getActivityOrder"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/abuse": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /**
         * Refused requests by cause, and the addresses and users with most signs of abuse, the most severe first
         * @description Counts of addresses and users are lower bounds: the gate keeps a bounded number of each, for 7 days after the last
         *     refused request. The response may be some seconds old, up to a minute for a large sale. While Redis is unavailable
         *     it has only what the database knows, and requests_available is false. CSV has one row for each address and user.
         */
        get: operations["getAbuse"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/review": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        /**
         * Orders of suspicious users that hold units, newest first, to review before fulfilment
         * @description A user is suspicious from 20 early requests, 50 requests refused by the limits by user, 10 wrong answers to challenges,
         *     5 purchases with void paths or 3 orders that expired or were cancelled. State and amount come from the order service:
         *     null while it does not respond.
         */
        get: operations["listReview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/activities/{activity_id}/review/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel orders of this activity, refund those that are paid, and put their units on sale again
         * @description An order of another activity is not_found and does not change. After any failure the call may be repeated: it
         *     completes what was begun, refunds nothing twice, and returns the same outcomes. The activity's history of changes
         *     has who cancelled which orders, when and why.
         */
        post: operations["cancelReviewed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What needs an operator now, the worst first (role operator)
         * @description The verdict is the state of the first item. unknown: what would show it does not respond.
         *
         *     - processes: not ready, or a service without a process; bad if a service has no ready process.
         *     - dependencies: processes with an open or half-open breaker.
         *     - clocks: processes whose clock differs from a dependency's by more than 250 ms; bad over 2 s, when they decide
         *       nothing by time.
         *     - restore: parts of an import after a restore that are not complete.
         *     - redisless_sales: sales that go on without their gate, or return to it.
         *     - dead_letters: open ones.
         *     - refunds: those of GET /v1/merchant/refunds, at most 1000.
         */
        get: operations["getOverview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * State of all processes of all services (role operator)
         * @description Each process writes its state to the Redis of the limits every 5 s. One that died disappears after 20 s. Without that
         *     Redis the response has only the process that responds.
         */
        get: operations["getHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Webhooks, newest first */
        get: operations["listWebhooks"];
        put?: never;
        /**
         * Add an endpoint that receives the changes of the merchant's orders from now on
         * @description docs/integration.md describes the requests, their signature and their repetition. The response shows the secret of
         *     the signatures; no later one does.
         */
        post: operations["createWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/webhooks/{webhook_id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        get: operations["getWebhook"];
        put?: never;
        post?: never;
        /** Delete a webhook; what waits for it is not sent */
        delete: operations["deleteWebhook"];
        options?: never;
        head?: never;
        /** Change the given fields; one that becomes active gets the changes from then on */
        patch: operations["patchWebhook"];
        trace?: never;
    };
    "/v1/merchant/webhooks/{webhook_id}/secret": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Replace the secret; for 24 h requests are signed with the old one too */
        post: operations["replaceWebhookSecret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/webhooks/{webhook_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send one event of the type webhook.test, and return what the endpoint responded */
        post: operations["testWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/webhooks/{webhook_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send the orders that changed since a time once more, each in its present state and with the same id */
        post: operations["replayWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/webhooks/{webhook_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        /** Deliveries of the last 30 days in one state, newest first */
        get: operations["listDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Dead letters, newest first (role operator) */
        get: operations["listDeadLetters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/dead-letters/{dead_letter_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dead_letter_id: components["parameters"]["DeadLetterID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publish the item again to its topic (role operator); may be repeated */
        post: operations["replayDeadLetter"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/dead-letters/{dead_letter_id}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dead_letter_id: components["parameters"]["DeadLetterID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Release its units; the buyer's result becomes failed(system) (role operator); may be repeated */
        post: operations["rejectDeadLetter"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/refunds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Refunds that wait for an operator, of all merchants, oldest first (role operator)
         * @description Those that their provider has refused (refund_failed), and pending ones that failed five times or more. Pending
         *     ones are attempted without end.
         */
        get: operations["listRefunds"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/refunds/{refund_id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the payment's id */
                refund_id: components["parameters"]["RefundID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Attempt a refused refund again (role operator); may be repeated
         * @description Queries the provider first. If it has made the refund, the refund becomes refunded; else refund_pending. A refund
         *     that is not refund_failed is returned unchanged.
         */
        post: operations["retryRefund"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/refunds/{refund_id}/settle": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the payment's id */
                refund_id: components["parameters"]["RefundID"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Record that the money of a refused refund was returned in another way (role operator); may be repeated
         * @description Queries the provider first. If it has made the refund, the refund becomes refunded by the provider, and the call
         *     is refused: the reference is not stored.
         */
        post: operations["settleRefund"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/payment-differences": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Differences between order and the payment providers, oldest first (role operator)
         * @description Order compares its payments and refunds with each provider every hour. What it cannot repair is here until a
         *     comparison no longer finds it.
         *
         *     | Kind | |
         *     |---|---|
         *     | `charge_differs`, `refund_differs` | recorded with another amount, currency or provider |
         *     | `charge_without_order` | the order of the charge does not exist |
         *     | `charge_missing`, `refund_missing` | recorded, and not made by the provider |
         *     | `charge_twice`, `refund_twice` | made twice by the provider; a refund also by it and by hand |
         *     | `charge_foreign`, `refund_foreign` | the id is none of order |
         *     | `refund_without_charge` | the provider has no charge of it |
         */
        get: operations["listPaymentDifferences"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Limits in force in all services, by name, with their counts over all processes (role operator) */
        get: operations["listLimits"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/limits/{limit_name}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        /** One limit and the callers that it refuses now (role operator) */
        get: operations["getLimit"];
        /**
         * Put a whole rule in force on all processes within a second; it overrides their files (role operator)
         * @description Fields that are left out have their defaults; PATCH changes single ones. Counts already spent stay spent. The name must be declared by a route; GET /v1/merchant/limits lists them.
         */
        put: operations["putLimit"];
        post?: never;
        /** Disable a limit on all processes, also one from their files (role operator) */
        delete: operations["deleteLimit"];
        options?: never;
        head?: never;
        /**
         * Change named fields of the rule in force, on all processes within a second (role operator)
         * @description A JSON merge patch (RFC 7396): null removes a field, so that its default holds; a field that is left out stays. An empty object is 400.
         */
        patch: operations["patchLimit"];
        trace?: never;
    };
    "/v1/merchant/limits/{limit_name}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        /**
         * What was done to a limit, newest first (role operator)
         * @description `details` has `before` and `after`, the rules in force then, null without one. A change is listed before it is made: the next entry shows whether it was. Entries of 0.1.0 have only `rule`, the one after them.
         */
        get: operations["listLimitChanges"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/limits/{limit_name}/revert": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Put the rule of the files in force again (role operator) */
        post: operations["revertLimit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/merchant/limits/{limit_name}/try": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Decision of a limit for a key, without charging it (role operator) */
        post: operations["tryLimit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Problem: {
            type: string;
            title: string;
            status: number;
            detail?: string;
            code: string;
            trace_id?: string;
            errors?: {
                field?: string;
                message?: string;
            }[];
            /**
             * Format: int64
             * @description of quota_exceeded: how many the merchant may have
             */
            limit?: number;
            /**
             * Format: int64
             * @description of quota_exceeded: how many the merchant has
             */
            used?: number;
            /** @description of state_conflict after an attempt to delete a sale: its state */
            state?: string;
            /**
             * Format: int64
             * @description of state_conflict with 412: the present version; of gate_unavailable after a change of a sale: the version that the change was saved as, which If-Match of a repeated call names
             */
            version?: number;
        };
        Currency: {
            currency: string;
            /** Format: int64 */
            currency_digits: number;
        };
        /**
         * @example {
         *       "items": [
         *         {
         *           "currency": "EUR",
         *           "currency_digits": 2
         *         },
         *         {
         *           "currency": "JPY",
         *           "currency_digits": 0
         *         }
         *       ]
         *     }
         */
        CurrencyList: {
            items: components["schemas"]["Currency"][];
        };
        /**
         * @description the shop's own reference, such as an article number: unique among the merchant's products, SKUs or activities.
         *     Capital and small letters differ. Empty for none
         */
        NewRef: string;
        NewSKU: {
            ref?: components["schemas"]["NewRef"];
            name: string;
            /** Format: int64 */
            list_price: number;
            /** @description a code of ISO 4217 */
            currency: string;
        };
        /**
         * @example {
         *       "ref": "PHONE-7",
         *       "name": "Phone",
         *       "skus": [
         *         {
         *           "ref": "PHONE-7-BLACK",
         *           "name": "black",
         *           "list_price": 99900,
         *           "currency": "EUR"
         *         }
         *       ]
         *     }
         */
        NewProduct: {
            ref?: components["schemas"]["NewRef"];
            name: string;
            description?: string;
            /** @description an http or https URL */
            image_url?: string;
            skus: components["schemas"]["NewSKU"][];
        };
        SKUPatch: {
            /** @description of a SKU of this product; without it a new one is added */
            sku_id?: string;
            ref?: components["schemas"]["NewRef"];
            name?: string;
            /** Format: int64 */
            list_price?: number;
            /** @description of a new SKU; it never changes */
            currency?: string;
        };
        ProductPatch: {
            ref?: components["schemas"]["NewRef"];
            name?: string;
            description?: string;
            image_url?: string;
            skus?: components["schemas"]["SKUPatch"][];
        };
        SKU: {
            sku_id: string;
            /** @description absent without one */
            ref?: string;
            name: string;
            /** Format: int64 */
            list_price: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
        };
        /**
         * @example {
         *       "product_id": "1",
         *       "merchant_id": "default",
         *       "ref": "PHONE-7",
         *       "name": "Phone",
         *       "description": "",
         *       "image_url": "",
         *       "archived": false,
         *       "version": 1,
         *       "skus": [
         *         {
         *           "sku_id": "1",
         *           "ref": "PHONE-7-BLACK",
         *           "name": "black",
         *           "list_price": 99900,
         *           "currency": "EUR",
         *           "currency_digits": 2
         *         }
         *       ],
         *       "created_at": "2026-11-21T09:00:00Z",
         *       "updated_at": "2026-11-21T09:00:00Z"
         *     }
         */
        Product: {
            product_id: string;
            merchant_id: string;
            /** @description absent without one */
            ref?: string;
            name: string;
            description: string;
            image_url: string;
            /** @description its SKUs are offered for no further sale */
            archived: boolean;
            /**
             * Format: int64
             * @description rises with every change
             */
            version: number;
            skus: components["schemas"]["SKU"][];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        ProductList: {
            items: components["schemas"]["Product"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "name": "Acme Ltd",
         *       "terms_url": "https://acme.example/terms",
         *       "delivery": "Ships within 3 days to the EU"
         *     }
         */
        NewProfile: {
            name: string;
            /** @description an https URL without a user; empty for none */
            terms_url: string;
            /** @description it may have several lines; empty for none */
            delivery: string;
        };
        /**
         * @example {
         *       "merchant_id": "default",
         *       "name": "Acme Ltd",
         *       "terms_url": "https://acme.example/terms",
         *       "delivery": "Ships within 3 days to the EU",
         *       "version": 1,
         *       "updated_at": "2026-11-21T09:00:00Z"
         *     }
         */
        Profile: {
            merchant_id: string;
            name: string;
            terms_url: string;
            delivery: string;
            /**
             * Format: int64
             * @description rises with every change; 0: no profile is stored
             */
            version: number;
            /**
             * Format: date-time
             * @description absent if no profile is stored
             */
            updated_at?: string;
        };
        NewActivityItem: {
            sku_id: string;
            /** Format: int64 */
            price: number;
            /** Format: int64 */
            stock: number;
        };
        /**
         * @example {
         *       "title": "Autumn sale",
         *       "starts_at": "2026-11-21T10:00:00Z",
         *       "ends_at": "2026-11-21T12:00:00Z",
         *       "per_user_limit": 1,
         *       "pay_within_s": 900,
         *       "items": [
         *         {
         *           "sku_id": "1",
         *           "price": 49900,
         *           "stock": 100
         *         }
         *       ]
         *     }
         */
        NewActivity: {
            ref?: components["schemas"]["NewRef"];
            title: string;
            /** @description shown to buyers */
            description?: string;
            /** @description an http or https URL, or a path of this site */
            image_url?: string;
            /** Format: date-time */
            starts_at: string;
            /** Format: date-time */
            ends_at: string;
            /**
             * Format: int64
             * @default 1
             */
            per_user_limit: number;
            /**
             * Format: int64
             * @default 900
             */
            pay_within_s: number;
            /**
             * Format: int64
             * @description orders that a buyer may cancel or let expire, 2 by default; one more ends the buyer's allowance in this
             *     activity for 10 min; 0 means any number
             */
            reorder_limit?: number;
            waiting_room?: components["schemas"]["WaitingRoom"];
            captcha?: components["schemas"]["CaptchaKind"];
            /**
             * Format: int64
             * @description thousands of hashes that a proof of work takes at most; 50 if absent
             */
            captcha_difficulty?: number;
            items: components["schemas"]["NewActivityItem"][];
            degraded_sale?: components["schemas"]["NewDegradedSale"];
        };
        ActivityPatch: {
            ref?: components["schemas"]["NewRef"];
            title?: string;
            /** @description shown to buyers */
            description?: string;
            /** @description an http or https URL, or a path of this site */
            image_url?: string;
            /** Format: date-time */
            starts_at?: string;
            /** Format: date-time */
            ends_at?: string;
            /** Format: int64 */
            per_user_limit?: number;
            /** Format: int64 */
            pay_within_s?: number;
            /** Format: int64 */
            reorder_limit?: number;
            waiting_room?: components["schemas"]["WaitingRoom"];
            captcha?: components["schemas"]["CaptchaKind"];
            /** Format: int64 */
            captcha_difficulty?: number;
            items?: components["schemas"]["NewActivityItem"][];
            /** @description null switches the degraded sale off */
            degraded_sale?: components["schemas"]["NewDegradedSale"] | null;
            /** @description a line to the buyers, in any state but ended; empty removes it */
            notice?: string;
        };
        /** @description a line to the buyers of the sale */
        Notice: {
            text: string;
            /**
             * Format: date-time
             * @description the time at which the text was written
             */
            at: string;
        };
        /** @description what is sold while Redis is unavailable; without it the sale stops then */
        NewDegradedSale: {
            /**
             * Format: int64
             * @description purchases, over all processes
             */
            per_second: number;
            /**
             * Format: int64
             * @description per cent of the purchase requests that are refused at random with 503
             * @default 0
             */
            drop: number;
            /**
             * Format: int64
             * @description per cent of the stock that is kept for purchases accepted before the outage
             * @default 1
             */
            reserve: number;
        };
        DegradedSale: {
            /** Format: int64 */
            per_second: number;
            /** Format: int64 */
            drop: number;
            /** Format: int64 */
            reserve: number;
        };
        /**
         * @description gate: Redis decides purchases; direct: the ledger does, while Redis is unavailable; returning: nothing is sold until the gate has what was sold directly
         * @enum {string}
         */
        SaleMode: "gate" | "direct" | "returning";
        /**
         * @description whether the sale would go on if Redis failed now. ready: it would, or it does; off: it has no degraded_sale;
         *     inactive: it is a draft or has ended; unread: its gate was not read yet, some seconds after degraded_sale was
         *     set; outdated: its gate was last read too long ago; importing: an import after a restore is not complete
         * @enum {string}
         */
        DegradedReadiness: "ready" | "off" | "inactive" | "unread" | "outdated" | "importing";
        /**
         * @description the challenge that buyers solve before they may take a path: a proof of work, an image, or the widget of the
         *     provider that seckill has; kind and difficulty may change while the sale is open
         * @enum {string}
         */
        CaptchaKind: "none" | "pow" | "click" | "provider";
        /**
         * @description buyers join it from 10 min before the start; those of the first 9 min get their places by lot; the rate may change
         *     while the sale is open
         */
        WaitingRoom: {
            /**
             * Format: int64
             * @description places that may take paths, a second, at most; 0 means that there is no waiting room
             */
            admit_per_second: number;
        };
        ActivityItem: {
            sku_id: string;
            /** @description of the SKU; absent without one */
            ref?: string;
            name: string;
            /**
             * Format: int64
             * @description of the SKU now
             */
            list_price: number;
            /** Format: int64 */
            price: number;
            /**
             * Format: int64
             * @description total units, adjustments included
             */
            stock: number;
        };
        /**
         * @description The units of all SKUs, as the ledger has them. Purchases that were accepted some seconds ago may not be in it: the
         *     board counts them.
         */
        ActivityTotals: {
            /**
             * Format: int64
             * @description total units, adjustments included
             */
            units: number;
            /**
             * Format: int64
             * @description neither paid nor reserved by an order or a purchase
             */
            left: number;
            /**
             * Format: int64
             * @description units of paid orders; those of a refunded order no longer count
             */
            sold: number;
            /**
             * Format: int64
             * @description the sold units at their prices in this sale, in minor units of its currency. The maximum also stands for any
             *     higher sum.
             */
            revenue: number;
        };
        /** @enum {string} */
        ActivityState: "draft" | "scheduled" | "open" | "paused" | "ended";
        /**
         * @example {
         *       "activity_id": "1",
         *       "merchant_id": "default",
         *       "title": "Autumn sale",
         *       "description": "",
         *       "image_url": "",
         *       "state": "draft",
         *       "starts_at": "2026-11-21T10:00:00Z",
         *       "ends_at": "2026-11-21T12:00:00Z",
         *       "per_user_limit": 1,
         *       "pay_within_s": 900,
         *       "reorder_limit": 2,
         *       "captcha": "none",
         *       "captcha_difficulty": 50,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "version": 1,
         *       "items": [
         *         {
         *           "sku_id": "1",
         *           "name": "black",
         *           "list_price": 59900,
         *           "price": 49900,
         *           "stock": 100
         *         }
         *       ],
         *       "totals": {
         *         "units": 100,
         *         "left": 60,
         *         "sold": 30,
         *         "revenue": 1497000
         *       },
         *       "degraded_sale": {
         *         "per_second": 100,
         *         "drop": 0,
         *         "reserve": 1
         *       },
         *       "mode": "gate",
         *       "created_at": "2026-11-21T09:00:00Z",
         *       "updated_at": "2026-11-21T09:00:00Z"
         *     }
         */
        Activity: {
            activity_id: string;
            merchant_id: string;
            /** @description absent without one */
            ref?: string;
            title: string;
            description: string;
            image_url: string;
            state: components["schemas"]["ActivityState"];
            /** Format: date-time */
            starts_at: string;
            /** Format: date-time */
            ends_at: string;
            /**
             * Format: date-time
             * @description the time at which it was ended before ends_at
             */
            ended_at?: string;
            /** Format: int64 */
            per_user_limit: number;
            /** Format: int64 */
            pay_within_s: number;
            /**
             * Format: int64
             * @description seconds in which the payment provider begins a payment for each unit, at its rate. More than half of pay_within_s is too little time for buyers. Absent while the rate is not limited
             */
            payments_take_s?: number;
            /** Format: int64 */
            reorder_limit: number;
            waiting_room?: components["schemas"]["WaitingRoom"];
            captcha: components["schemas"]["CaptchaKind"];
            /** Format: int64 */
            captcha_difficulty: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /**
             * Format: int64
             * @description rises with every change
             */
            version: number;
            items: components["schemas"]["ActivityItem"][];
            totals: components["schemas"]["ActivityTotals"];
            degraded_sale?: components["schemas"]["DegradedSale"];
            notice?: components["schemas"]["Notice"];
            mode: components["schemas"]["SaleMode"];
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            updated_at: string;
        };
        ActivityList: {
            items: components["schemas"]["Activity"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "sku_id": "1",
         *       "delta": 20,
         *       "reason": "more came in"
         *     }
         */
        NewAdjustment: {
            sku_id: string;
            /**
             * Format: int64
             * @description not 0
             */
            delta: number;
            reason: string;
        };
        /**
         * @example {
         *       "adjustment_id": "1",
         *       "activity_id": "1",
         *       "sku_id": "1",
         *       "delta": 20,
         *       "reason": "more came in",
         *       "state": "applied",
         *       "created_by": "7",
         *       "created_at": "2026-11-21T10:05:00Z"
         *     }
         */
        Adjustment: {
            adjustment_id: string;
            activity_id: string;
            sku_id: string;
            /** Format: int64 */
            delta: number;
            reason: string;
            /**
             * @description pending until database and gate have it
             * @enum {string}
             */
            state: "pending" | "applied" | "refused";
            created_by: string;
            /** Format: date-time */
            created_at: string;
        };
        AdjustmentList: {
            items: components["schemas"]["Adjustment"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "change_id": "7",
         *       "at": "2026-11-21T10:05:00Z",
         *       "actor": "7",
         *       "role": "merchant",
         *       "what": "activity.patch",
         *       "details": {
         *         "title": "Autumn sale"
         *       }
         *     }
         */
        Change: {
            change_id: string;
            /** Format: date-time */
            at: string;
            /** @description user id */
            actor: string;
            /**
             * @description absent if it was not recorded
             * @enum {string}
             */
            role?: "merchant" | "operator";
            /** @description such as activity.create, activity.patch, activity.delete, activity.publish, activity.pause, activity.resume, activity.end, activity.reconcile, activity.restore, stock.adjust, orders.cancel */
            what: string;
            /** @description new values by field, or what the change is about */
            details?: {
                [key: string]: unknown;
            };
        };
        ChangeList: {
            items: components["schemas"]["Change"][];
            next_cursor?: string;
        };
        /** @description Units over all SKUs, as the gate counts them; as the database does, if the sale has no gate (a draft, or long ended), or goes on or stops without it. */
        BoardUnits: {
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            left: number;
            /**
             * Format: int64
             * @description of queued and created purchases
             */
            held: number;
            /** Format: int64 */
            sold: number;
        };
        /** @description Purchases in the ledger. They may be some seconds old, in a large sale. */
        BoardOrders: {
            /**
             * Format: date-time
             * @description when they were counted
             */
            as_of: string;
            /**
             * Format: int64
             * @description reserved
             */
            pending: number;
            /**
             * Format: int64
             * @description sold
             */
            paid: number;
            /**
             * Format: int64
             * @description released
             */
            closed: number;
            /**
             * Format: int64
             * @description the gate accepted them and the database did not
             */
            rejected: number;
        };
        /**
         * @description Purchases and requests of buyers since the publication, over all processes. `accepted` is exact: once all purchases
         *     have landed, it equals the reservations of the ledger in all states. The others count responses at best
         *     effort: a killed process loses those of its last second, and they begin at 0 when Redis loses its data.
         */
        BoardRequests: {
            /**
             * Format: int64
             * @description purchases accepted
             */
            accepted: number;
            /**
             * Format: int64
             * @description paths issued
             */
            paths: number;
            /**
             * Format: int64
             * @description challenges solved
             */
            solved: number;
            /**
             * Format: int64
             * @description wrong answers to challenges
             */
            failed: number;
            /** @description path and purchase requests refused, by code */
            refused: {
                [key: string]: number;
            };
        };
        /** @description One second with requests, which count responses at best effort. left, held and sold are absent if no board was open in that second. */
        BoardPoint: {
            /** Format: date-time */
            at: string;
            /** Format: int64 */
            left?: number;
            /** Format: int64 */
            held?: number;
            /** Format: int64 */
            sold?: number;
            /** Format: int64 */
            accepted: number;
            /** Format: int64 */
            paths: number;
            /** @description by code */
            refused: {
                [key: string]: number;
            };
        };
        /** @description Absent without a waiting room, before its first ticket, and while the gate cannot be read. */
        BoardRoom: {
            /**
             * Format: int64
             * @description places that are not admitted yet; a ticket that its buyer replaced counts, too
             */
            waiting: number;
            /**
             * Format: int64
             * @description places that may buy now
             */
            admitted: number;
            /**
             * Format: int64
             * @description places whose time to buy is over
             */
            lapsed: number;
            /**
             * Format: int64
             * @description seconds of an open sale until all that wait are admitted
             */
            estimate_s: number;
        };
        /**
         * @example {
         *       "activity_id": "1",
         *       "title": "Autumn sale",
         *       "state": "open",
         *       "mode": "gate",
         *       "degraded_readiness": "ready",
         *       "starts_at": "2026-11-21T10:00:00Z",
         *       "ends_at": "2026-11-21T12:00:00Z",
         *       "as_of": "2026-11-21T10:05:00Z",
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "units": {
         *         "total": 100,
         *         "left": 37,
         *         "held": 53,
         *         "sold": 10
         *       },
         *       "revenue": 299000,
         *       "room": {
         *         "waiting": 1200,
         *         "admitted": 60,
         *         "lapsed": 840,
         *         "estimate_s": 60
         *       },
         *       "orders": {
         *         "pending": 50,
         *         "paid": 10,
         *         "closed": 4,
         *         "rejected": 0,
         *         "as_of": "2026-11-21T10:04:58Z"
         *       },
         *       "totals": {
         *         "accepted": 67,
         *         "paths": 90,
         *         "solved": 0,
         *         "failed": 0,
         *         "refused": {
         *           "sold_out": 12
         *         }
         *       },
         *       "stock": {
         *         "as_of": "2026-11-21T10:05:00Z",
         *         "skus": []
         *       },
         *       "points": [
         *         {
         *           "at": "2026-11-21T10:04:57Z",
         *           "left": 38,
         *           "held": 52,
         *           "sold": 10,
         *           "accepted": 2,
         *           "paths": 3,
         *           "refused": {
         *             "sold_out": 1
         *           }
         *         }
         *       ]
         *     }
         */
        Board: {
            activity_id: string;
            title: string;
            state: components["schemas"]["ActivityState"];
            mode: components["schemas"]["SaleMode"];
            degraded_readiness: components["schemas"]["DegradedReadiness"];
            /** Format: date-time */
            starts_at: string;
            /** Format: date-time */
            ends_at: string;
            /** Format: date-time */
            as_of: string;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            units: components["schemas"]["BoardUnits"];
            /**
             * Format: int64
             * @description of the sold units at their prices in the sale, in the smallest unit of the currency; refunds are not in it
             */
            revenue: number;
            room?: components["schemas"]["BoardRoom"];
            orders: components["schemas"]["BoardOrders"];
            totals: components["schemas"]["BoardRequests"];
            stock: components["schemas"]["StockView"];
            /** @description at most 900, oldest first; seconds without requests and the last 3 s are left out */
            points: components["schemas"]["BoardPoint"][];
        };
        BoardUpdate: {
            /** Format: date-time */
            as_of: string;
            state: components["schemas"]["ActivityState"];
            mode: components["schemas"]["SaleMode"];
            degraded_readiness: components["schemas"]["DegradedReadiness"];
            units: components["schemas"]["BoardUnits"];
            /**
             * Format: int64
             * @description of the sold units at their prices in the sale, in the smallest unit of the currency; refunds are not in it
             */
            revenue: number;
            room?: components["schemas"]["BoardRoom"];
            orders: components["schemas"]["BoardOrders"];
            totals: components["schemas"]["BoardRequests"];
            /** @description a new or changed second with requests; null if there is none */
            point: components["schemas"]["BoardPoint"] | null;
        };
        /** @enum {string} */
        OverviewState: "good" | "warning" | "bad" | "unknown";
        OverviewItem: {
            /** @enum {string} */
            what: "processes" | "dependencies" | "clocks" | "restore" | "redisless_sales" | "dead_letters" | "refunds";
            state: components["schemas"]["OverviewState"];
            /** Format: int64 */
            count: number;
            /**
             * Format: date-time
             * @description of the oldest one that is counted; absent if that is unknown
             */
            since?: string;
        };
        /**
         * @example {
         *       "verdict": "warning",
         *       "items": [
         *         {
         *           "what": "refunds",
         *           "state": "warning",
         *           "count": 2,
         *           "since": "2026-11-21T09:40:00Z"
         *         },
         *         {
         *           "what": "processes",
         *           "state": "good",
         *           "count": 0
         *         }
         *       ],
         *       "as_of": "2026-11-21T10:05:00Z"
         *     }
         */
        Overview: {
            verdict: components["schemas"]["OverviewState"];
            items: components["schemas"]["OverviewItem"][];
            /** Format: date-time */
            as_of: string;
        };
        HealthItem: {
            /** @description seckill, order or inventory */
            component: string;
            /** @description host name and a part that is new at each start */
            instance: string;
            version: string;
            ready: boolean;
            /** @description why it is not ready, or what it does not do at present although it is ready */
            reasons: string[];
            breakers: {
                name: string;
                /** @enum {string} */
                state: "closed" | "half-open" | "open";
            }[];
            pools: {
                name: string;
                in_use: number;
                /** @description 0 if there is no bound */
                max: number;
            }[];
            /** @description how far its clock is ahead of those of redis and database; one that does not respond is left out */
            clock_offset_ms: {
                [key: string]: number;
            };
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            at: string;
        };
        /**
         * @example {
         *       "source": "redis",
         *       "items": [
         *         {
         *           "component": "inventory",
         *           "instance": "inventory-0-1f2e3d4c",
         *           "version": "v1.0.0",
         *           "ready": true,
         *           "reasons": [],
         *           "breakers": [
         *             {
         *               "name": "gate",
         *               "state": "closed"
         *             }
         *           ],
         *           "pools": [
         *             {
         *               "name": "database",
         *               "in_use": 1,
         *               "max": 16
         *             }
         *           ],
         *           "clock_offset_ms": {
         *             "redis": 0,
         *             "database": 1
         *           },
         *           "started_at": "2026-11-21T09:00:00Z",
         *           "at": "2026-11-21T10:05:00Z"
         *         }
         *       ]
         *     }
         */
        Health: {
            /**
             * @description self: the Redis of the limits does not respond, and items has only the process that responds
             * @enum {string}
             */
            source: "redis" | "self";
            items: components["schemas"]["HealthItem"][];
        };
        StockMySQL: {
            /** Format: int64 */
            available: number;
            /** Format: int64 */
            reserved: number;
            /** Format: int64 */
            sold: number;
        };
        StockGate: {
            /** Format: int64 */
            left: number;
            /** Format: int64 */
            held: number;
        };
        StockSKU: {
            sku_id: string;
            /** Format: int64 */
            total: number;
            mysql: components["schemas"]["StockMySQL"];
            gate: components["schemas"]["StockGate"];
            /** Format: int64 */
            journal: number;
            /** Format: int64 */
            in_flight: number;
            /** Format: int64 */
            difference: number;
        };
        /**
         * @description held counts queued and created units; journal and in_flight count those of them that are not yet in the ledger.
         *     difference is mysql.available - gate.left - journal - in_flight; 0 means that database and gate agree.
         * @example {
         *       "as_of": "2026-11-21T10:05:00Z",
         *       "skus": [
         *         {
         *           "sku_id": "1",
         *           "total": 100,
         *           "mysql": {
         *             "available": 40,
         *             "reserved": 50,
         *             "sold": 10
         *           },
         *           "gate": {
         *             "left": 37,
         *             "held": 53
         *           },
         *           "journal": 2,
         *           "in_flight": 1,
         *           "difference": 0
         *         }
         *       ]
         *     }
         */
        StockView: {
            /** Format: date-time */
            as_of: string;
            skus: components["schemas"]["StockSKU"][];
        };
        Repair: {
            /** @description If the repair concerns one purchase */
            order_sn?: string;
            /** @description Empty if the repair concerns no SKU */
            sku_id: string;
            /**
             * Format: int64
             * @description Change of the units left in the gate by the repair. Of a difference: the units that the gate counts too few.
             */
            delta: number;
            why: string;
        };
        /**
         * @example {
         *       "looked_at": "2026-11-21T10:05:00Z",
         *       "repairs": [
         *         {
         *           "order_sn": "244837465837465837",
         *           "sku_id": "1",
         *           "delta": 1,
         *           "why": "the gate held units of a purchase that ended"
         *         }
         *       ],
         *       "differences": []
         *     }
         */
        Reconciliation: {
            /** Format: date-time */
            looked_at: string;
            repairs: components["schemas"]["Repair"][];
            /** @description Mismatches that were not repaired */
            differences: components["schemas"]["Repair"][];
        };
        PastReconciliation: {
            /** Format: date-time */
            compared_at: string;
            /** @description user id of an operator; reconciler for the timer */
            actor: string;
            repairs: components["schemas"]["Repair"][];
            /** @description mismatches that were not repaired */
            left: number;
        };
        ReconciliationList: {
            items: components["schemas"]["PastReconciliation"][];
            next_cursor?: string;
        };
        Line: {
            sku_id: string;
            /** @description absent without one, and in the review */
            sku_ref?: string;
            /** Format: int64 */
            qty: number;
        };
        /**
         * @example {
         *       "order_sn": "244837465837465837",
         *       "user_id": "42",
         *       "lines": [
         *         {
         *           "sku_id": "1",
         *           "qty": 1
         *         }
         *       ],
         *       "state": "reserved",
         *       "reserved_at": "2026-11-21T10:00:01.25Z",
         *       "order_created_at": "2026-11-21T10:00:01.28Z",
         *       "expires_at": "2026-11-21T10:15:01.28Z",
         *       "changed_at": "2026-11-21T10:00:01.3Z",
         *       "order_state": "pending",
         *       "amount": 9900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "contact": {
         *         "name": "Li Lei",
         *         "phone": "+8613812345678",
         *         "address_lines": [
         *           "1 Renmin Road",
         *           "Shanghai 200001"
         *         ]
         *       }
         *     }
         */
        Holding: {
            order_sn: string;
            user_id: string;
            lines: components["schemas"]["Line"][];
            /** @enum {string} */
            state: "reserved" | "sold" | "released" | "rejected";
            reason?: string;
            /** Format: date-time */
            reserved_at: string;
            /** Format: date-time */
            order_created_at?: string;
            /** Format: date-time */
            expires_at?: string;
            /** Format: date-time */
            changed_at: string;
            /**
             * @description null if there is no order, or if the order service does not respond; the same holds for amount, currency
             *     and contact
             * @enum {string|null}
             */
            order_state: "pending" | "paid" | "closed" | "refunded" | null;
            /**
             * Format: int64
             * @description Minor units
             */
            amount: number | null;
            currency: string | null;
            /** Format: int64 */
            currency_digits: number | null;
            contact: components["schemas"]["Contact"] | null;
        };
        FeedLine: {
            sku_id: string;
            /** @description absent without one */
            sku_ref?: string;
            /** Format: int64 */
            qty: number;
            /**
             * Format: int64
             * @description minor units; absent if the sale does not have the SKU
             */
            unit_price?: number;
        };
        /**
         * @description A reservation and its order as the ledger has them. reserved: units are held; from order_created_at on there is an
         *     order, which is to be paid until expires_at. sold: paid, and the units are held: ship it. released: closed by its
         *     reason, such as expired, cancelled or refunded. rejected: no order follows, and no units are held.
         * @example {
         *       "order_sn": "244837465837465837",
         *       "activity_id": "1",
         *       "activity_ref": "AUTUMN",
         *       "merchant_id": "default",
         *       "user_id": "42",
         *       "lines": [
         *         {
         *           "sku_id": "1",
         *           "sku_ref": "PHONE-7-BLACK",
         *           "qty": 1,
         *           "unit_price": 9900
         *         }
         *       ],
         *       "amount": 9900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "state": "sold",
         *       "reserved_at": "2026-11-21T10:00:01.25Z",
         *       "order_created_at": "2026-11-21T10:00:01.28Z",
         *       "expires_at": "2026-11-21T10:15:01.28Z",
         *       "changed_at": "2026-11-21T10:03:12.400Z"
         *     }
         */
        FeedOrder: {
            order_sn: string;
            activity_id: string;
            /** @description absent without one */
            activity_ref?: string;
            merchant_id?: string;
            user_id: string;
            /** @description empty if they cannot be read */
            lines: components["schemas"]["FeedLine"][];
            /**
             * Format: int64
             * @description minor units; absent if lines is empty or lacks a price
             */
            amount?: number;
            currency?: string;
            /** Format: int64 */
            currency_digits?: number;
            /** @enum {string} */
            state: "reserved" | "sold" | "released" | "rejected";
            /** @description of released and rejected */
            reason?: string;
            /** Format: date-time */
            reserved_at: string;
            /**
             * Format: date-time
             * @description absent as long as there is no order
             */
            order_created_at?: string;
            /** Format: date-time */
            expires_at?: string;
            /**
             * Format: date-time
             * @description rises with each change of the order; has three decimals, so that texts compare as times
             */
            changed_at: string;
        };
        OrderFeed: {
            items: components["schemas"]["FeedOrder"][];
            /** @description of every page but the last */
            next_cursor?: string;
            /**
             * Format: date-time
             * @description of the last page; the changed_since of the next call
             */
            next_since?: string;
        };
        /** @enum {string} */
        EventType: "order.created" | "order.paid" | "order.closed" | "order.refunded" | "order.failed";
        EventTypes: components["schemas"]["EventType"][];
        /**
         * @example {
         *       "url": "https://shop.example/flashsale",
         *       "types": [
         *         "order.paid",
         *         "order.refunded"
         *       ]
         *     }
         */
        NewWebhook: {
            /** @description an https URL of ASCII characters without a user or fragment; its host has a public address */
            url: string;
            types: components["schemas"]["EventTypes"];
        };
        WebhookPatch: {
            url?: string;
            types?: components["schemas"]["EventTypes"];
            /** @enum {string} */
            state?: "active" | "off";
        };
        Webhook: {
            webhook_id: string;
            merchant_id: string;
            url: string;
            types: components["schemas"]["EventTypes"];
            /**
             * @description a response with 410 ends the state active; only an active one gets events
             * @enum {string}
             */
            state: "active" | "gone" | "off";
        };
        WebhookSecret: {
            webhook_id: string;
            merchant_id: string;
            url: string;
            types: components["schemas"]["EventTypes"];
            /** @enum {string} */
            state: "active" | "gone" | "off";
            /** @description whsec_ and 32 bytes in base64, the key of the signatures */
            secret: string;
        };
        WebhookList: {
            items: components["schemas"]["Webhook"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "since": "2026-11-21T10:00:00Z"
         *     }
         */
        WebhookReplay: {
            /**
             * Format: date-time
             * @description of the last 30 days
             */
            since: string;
        };
        WebhookTest: {
            /**
             * Format: int64
             * @description that the endpoint responded with; 0 without a response
             */
            status: number;
            /** @description empty if the event was delivered */
            error: string;
        };
        Delivery: {
            /** @description the webhook-id of its requests */
            event_id: string;
            order_sn: string;
            type: components["schemas"]["EventType"];
            /** @enum {string} */
            state: "waiting" | "delivered" | "failed";
            /** Format: int64 */
            attempts: number;
            /**
             * Format: date-time
             * @description of a waiting one
             */
            next_attempt_at?: string;
            /**
             * Format: int64
             * @description of the last response; 0 without one
             */
            status: number;
            /** @description of the last attempt; empty after a success */
            error: string;
            /** Format: date-time */
            changed_at: string;
            /** Format: date-time */
            created_at: string;
        };
        DeliveryList: {
            items: components["schemas"]["Delivery"][];
            next_cursor?: string;
        };
        /**
         * @description How to reach the buyer. Operators get the first character of the name, the last four digits of the phone
         *     number, and no address. null in a list also if the contact cannot be decrypted.
         */
        Contact: {
            name: string;
            /** @description E.164 */
            phone: string;
            address_lines?: string[];
        };
        /** @description Reservations of the activity by state, without filters. They may be some seconds old, in a large sale. */
        HoldingCounts: {
            /** Format: int64 */
            reserved: number;
            /** Format: int64 */
            sold: number;
            /** Format: int64 */
            released: number;
            /** Format: int64 */
            rejected: number;
        };
        HoldingList: {
            counts: components["schemas"]["HoldingCounts"];
            items: components["schemas"]["Holding"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "order_sn": "244837465837465837",
         *       "activity_id": "1",
         *       "activity_title": "Autumn sale",
         *       "user_id": "42",
         *       "lines": [
         *         {
         *           "sku_id": "1",
         *           "qty": 1,
         *           "name": "black",
         *           "unit_price": 9900
         *         }
         *       ],
         *       "state": "reserved",
         *       "reserved_at": "2026-11-21T10:00:01.25Z",
         *       "changed_at": "2026-11-21T10:00:01.3Z",
         *       "order_state": "pending",
         *       "amount": 9900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "created_at": "2026-11-21T10:00:01.28Z",
         *       "expires_at": "2026-11-21T10:15:01.28Z",
         *       "contact": {
         *         "name": "Li Lei",
         *         "phone": "+8613812345678",
         *         "address_lines": [
         *           "1 Renmin Road",
         *           "Shanghai 200001"
         *         ]
         *       },
         *       "payments": [],
         *       "refunds": [],
         *       "changes": [
         *         {
         *           "at": "2026-11-21T10:00:01.25Z",
         *           "what": "order.reserve",
         *           "actor": "42",
         *           "role": "buyer"
         *         },
         *         {
         *           "at": "2026-11-21T10:00:01.28Z",
         *           "what": "order.create"
         *         }
         *       ]
         *     }
         */
        ActivityOrder: {
            order_sn: string;
            activity_id: string;
            /** @description absent without one */
            activity_ref?: string;
            /** @description At the purchase; the present one without an order, or if it is not known */
            activity_title: string;
            user_id: string;
            lines: components["schemas"]["OrderLine"][];
            /**
             * @description Of the reservation
             * @enum {string}
             */
            state: "reserved" | "sold" | "released" | "rejected";
            /** @description Of the reservation */
            reason?: string;
            /** Format: date-time */
            reserved_at: string;
            /**
             * Format: date-time
             * @description When the reservation last changed
             */
            changed_at: string;
            /**
             * @description null if there is no order; the same holds for amount, currency and currency_digits
             * @enum {string|null}
             */
            order_state: "pending" | "paid" | "closed" | "refunded" | null;
            /** @description Of closed: expired, cancelled or rejected */
            close_reason?: string;
            /**
             * Format: int64
             * @description Minor units
             */
            amount: number | null;
            currency: string | null;
            /** Format: int64 */
            currency_digits: number | null;
            /**
             * Format: date-time
             * @description When the order was created, as far as it is known
             */
            created_at?: string;
            /** Format: date-time */
            expires_at?: string;
            /** Format: date-time */
            paid_at?: string;
            /** Format: date-time */
            closed_at?: string;
            /** Format: date-time */
            refunded_at?: string;
            /** @description Id of the payment that made it paid */
            paid_by?: string;
            /**
             * Format: date-time
             * @description Of pending: a payment in flight keeps the order open until then
             */
            paying_until?: string;
            contact: components["schemas"]["Contact"] | null;
            /** @description Oldest first */
            payments: components["schemas"]["OrderPayment"][];
            /** @description Oldest first */
            refunds: components["schemas"]["OrderRefund"][];
            /** @description Oldest first; of repeated decisions the latest 100 */
            changes: components["schemas"]["OrderChange"][];
        };
        OrderLine: {
            sku_id: string;
            /** @description absent without one */
            sku_ref?: string;
            /** Format: int64 */
            qty: number;
            /** @description At the purchase; the present one without an order. Absent if it is not known */
            name?: string;
            /**
             * Format: int64
             * @description Minor units; absent without an order
             */
            unit_price?: number;
        };
        OrderPayment: {
            /** @description Here and at the provider: its reference */
            payment_id: string;
            provider: string;
            /** @enum {string} */
            state: "started" | "succeeded" | "failed";
            /**
             * Format: int64
             * @description Requested, in minor units
             */
            amount: number;
            currency: string;
            /** Format: int64 */
            currency_digits: number;
            /**
             * Format: int64
             * @description Taken by the provider, in minor units of paid_currency; absent unless it took money
             */
            paid_amount?: number;
            /** @description As the provider reported it */
            paid_currency?: string;
            /**
             * Format: int64
             * @description Absent if ISO 4217 has no such currency
             */
            paid_currency_digits?: number;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            finished_at?: string;
        };
        OrderRefund: {
            /** @description The payment's id, here and at the provider */
            refund_id: string;
            provider: string;
            /** @enum {string} */
            state: "refund_pending" | "refunded" | "refund_failed";
            reason: string;
            /**
             * Format: int64
             * @description Minor units
             */
            amount: number;
            currency: string;
            /** Format: int64 */
            currency_digits: number;
            /**
             * Format: int64
             * @description Since the last retry by an operator; only operators get it
             */
            attempts?: number;
            /**
             * Format: date-time
             * @description Of refund_pending; only operators get it
             */
            next_attempt_at?: string;
            /** @description Of the provider; only operators get it */
            last_error?: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            refunded_at?: string;
            settled?: components["schemas"]["SettledRefund"];
        };
        OrderChange: {
            /** Format: date-time */
            at: string;
            /**
             * @description order.reserve, order.create, order.pay, order.close and order.refund are changes of its state, and
             *     order.release, order.reject those of a reservation without an order. orders.cancel is the decision of a
             *     merchant, dead_letter.replay, dead_letter.reject, refund.retry, refund.settle and refund.found are those of
             *     operators. Other values may come.
             */
            what: string;
            /** @description User id; absent if the system made the change, or if it was not recorded */
            actor?: string;
            /**
             * @description Of the actor
             * @enum {string}
             */
            role?: "buyer" | "merchant" | "operator";
            /** @description Such as reason, payment_id, refund_id or reference */
            details?: {
                [key: string]: unknown;
            };
        };
        /** @enum {string} */
        AbuseCause: "early" | "rate_limited" | "failed_challenges" | "voided_paths" | "ended_holds";
        AbuseChallenges: {
            /** Format: int64 */
            solved: number;
            /**
             * Format: int64
             * @description wrong answers
             */
            failed: number;
        };
        AbuseAddress: {
            /**
             * @description an IPv4 address, or the /64 of an IPv6 address
             * @example 2001:db8:1:2::/64
             */
            address: string;
            /**
             * Format: int64
             * @description requests before the start
             */
            early: number;
            /**
             * Format: int64
             * @description requests that a limit by address or user or the click rule refused
             */
            rate_limited: number;
            /**
             * Format: int64
             * @description wrong answers to challenges
             */
            failed_challenges: number;
            /**
             * Format: int64
             * @description purchases with a path that was invalid or void
             */
            voided_paths: number;
        };
        AbuseUser: {
            user_id: string;
            /**
             * Format: int64
             * @description requests before the start
             */
            early: number;
            /**
             * Format: int64
             * @description requests that a limit by address or user or the click rule refused
             */
            rate_limited: number;
            /**
             * Format: int64
             * @description wrong answers to challenges
             */
            failed_challenges: number;
            /**
             * Format: int64
             * @description purchases with a path that was invalid or void
             */
            voided_paths: number;
            /**
             * Format: int64
             * @description orders that expired unpaid; 0 also for a user with one expired or cancelled order in all
             */
            expired_holds: number;
            /**
             * Format: int64
             * @description orders that the user cancelled; see expired_holds
             */
            cancelled_holds: number;
            /**
             * Format: int64
             * @description orders and purchases that hold units
             */
            purchases: number;
            /** @description why the user's orders are on the review list; empty if they are not */
            causes: components["schemas"]["AbuseCause"][];
        };
        Abuse: {
            /** Format: date-time */
            as_of: string;
            /** @description false while Redis is unavailable: refused, challenges and addresses are empty, and users have only what the database has */
            requests_available: boolean;
            /** @description path and purchase requests that were refused, by error code */
            refused: {
                [key: string]: number;
            };
            challenges: components["schemas"]["AbuseChallenges"];
            addresses: components["schemas"]["AbuseAddress"][];
            users: components["schemas"]["AbuseUser"][];
        };
        ReviewItem: {
            order_sn: string;
            user_id: string;
            lines: components["schemas"]["Line"][];
            /** @enum {string} */
            state: "reserved" | "sold";
            /** Format: date-time */
            reserved_at: string;
            /**
             * @description null if there is no order yet or the order service does not respond
             * @enum {string|null}
             */
            order_state: "pending" | "paid" | "closed" | "refunded" | null;
            /**
             * Format: int64
             * @description minor units
             */
            amount: number | null;
            currency: string | null;
            /** Format: int64 */
            currency_digits: number | null;
            causes: components["schemas"]["AbuseCause"][];
        };
        ReviewList: {
            items: components["schemas"]["ReviewItem"][];
            /** @description false while Redis is unavailable: the list lacks users who are suspicious for refused requests */
            requests_available: boolean;
            next_cursor?: string;
        };
        CancelRequest: {
            /**
             * @example [
             *       "244837465837465837"
             *     ]
             */
            order_sns: string[];
            /** @example bought by a robot */
            reason: string;
        };
        CancelResult: {
            order_sn: string;
            /**
             * @description cancelled: was not paid; refunding: was paid, the refund has begun or is complete; already_closed: had ended
             *     otherwise; not_found: this activity has no such order.
             * @enum {string}
             */
            outcome: "cancelled" | "refunding" | "already_closed" | "not_found";
        };
        CancelResults: {
            results: components["schemas"]["CancelResult"][];
        };
        /**
         * @example {
         *       "dead_letter_id": "1",
         *       "where": "inventory-reservations",
         *       "topic": "seckill-reservations",
         *       "order_sn": "244837465837465837",
         *       "activity_id": "1",
         *       "merchant_id": "default",
         *       "why": "lines[0].qty: must be 1 to 100",
         *       "item": "{\"order_sn\":\"244837465837465837\",\"user_id\":\"42\",\"activity_id\":\"1\",\"lines\":[{\"sku_id\":\"1\",\"qty\":0}]}",
         *       "state": "open",
         *       "occurrences": 1,
         *       "failed_at": "2026-11-21T10:00:02Z"
         *     }
         */
        DeadLetter: {
            dead_letter_id: string;
            where: string;
            topic: string;
            order_sn?: string;
            activity_id?: string;
            /** @description owner of the activity; absent if the item names no known activity */
            merchant_id?: string;
            why: string;
            /** @description the item as text; invalid UTF-8 is replaced */
            item: string;
            /** @enum {string} */
            state: "open" | "replayed" | "rejected";
            /** Format: int64 */
            occurrences: number;
            /** Format: date-time */
            failed_at: string;
            decided_by?: string;
            /** Format: date-time */
            decided_at?: string;
        };
        DeadLetterList: {
            items: components["schemas"]["DeadLetter"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "refund_id": "4984557191785365628",
         *       "order_sn": "244837465837465837",
         *       "provider": "sandbox",
         *       "amount": 4900,
         *       "currency": "EUR",
         *       "currency_digits": 2,
         *       "state": "refund_failed",
         *       "reason": "order_closed",
         *       "attempts": 1,
         *       "last_error": "account closed",
         *       "created_at": "2026-11-21T10:05:00Z"
         *     }
         */
        Refund: {
            /** @description the payment's id, here and at the provider */
            refund_id: string;
            order_sn: string;
            provider: string;
            /**
             * Format: int64
             * @description minor units
             */
            amount: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /** @enum {string} */
            state: "refund_pending" | "refunded" | "refund_failed";
            reason: string;
            /**
             * Format: int64
             * @description since the last retry by an operator
             */
            attempts: number;
            /**
             * Format: date-time
             * @description of refund_pending
             */
            next_attempt_at?: string;
            /** @description of the provider */
            last_error?: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            refunded_at?: string;
            settled?: components["schemas"]["SettledRefund"];
        };
        RefundList: {
            items: components["schemas"]["Refund"][];
            next_cursor?: string;
        };
        PaymentDifferenceList: {
            items: components["schemas"]["PaymentDifference"][];
            next_cursor?: string;
        };
        /**
         * @example {
         *       "difference_id": "3",
         *       "provider": "shop",
         *       "kind": "charge_differs",
         *       "payment_id": "4984557191785365628",
         *       "order_sn": "244837465837465837",
         *       "provider_amount": {
         *         "amount": 490,
         *         "currency": "EUR",
         *         "currency_digits": 2
         *       },
         *       "recorded_amount": {
         *         "amount": 4900,
         *         "currency": "EUR",
         *         "currency_digits": 2
         *       },
         *       "at": "2026-11-21T10:05:00Z",
         *       "first_seen_at": "2026-11-21T11:00:00Z",
         *       "last_seen_at": "2026-11-21T12:00:00Z"
         *     }
         */
        PaymentDifference: {
            difference_id: string;
            provider: string;
            /** @description one of the table; further ones may follow */
            kind: string;
            /** @description as the provider has it; also the refund's id */
            payment_id: string;
            /** @description absent if it is not known */
            order_sn?: string;
            provider_amount?: components["schemas"]["DifferenceAmount"];
            recorded_amount?: components["schemas"]["DifferenceAmount"];
            /**
             * Format: date-time
             * @description of the charge or refund
             */
            at: string;
            /** Format: date-time */
            first_seen_at: string;
            /**
             * Format: date-time
             * @description start of the last comparison that found it
             */
            last_seen_at: string;
        };
        /** @description Absent if there is none, or it is not known */
        DifferenceAmount: {
            /**
             * Format: int64
             * @description minor units
             */
            amount: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
        };
        /** @description How an operator returned the money. Absent if the provider did. */
        SettledRefund: {
            /** @description user id of the operator */
            by: string;
            reference: string;
            reason: string;
        };
        /**
         * @example {
         *       "reference": "transfer 17",
         *       "reason": "account closed"
         *     }
         */
        RefundSettlement: {
            /** @description of the transfer */
            reference: string;
            reason: string;
        };
        /**
         * @description As in the rules' file; docs/limits.md explains the fields.
         * @example {
         *       "algorithm": "token_bucket",
         *       "limit": 500,
         *       "per": "1s",
         *       "burst": 50,
         *       "max_wait": "1s",
         *       "lease": 0.01
         *     }
         */
        LimitRule: {
            /** @description equal to the name in the URL, or left out */
            name?: string;
            /** @enum {string} */
            algorithm?: "token_bucket" | "gcra" | "leaky_bucket" | "leaky_queue" | "fixed_window" | "sliding_window" | "sliding_log" | "warm_up" | "concurrency";
            /**
             * Format: int64
             * @description 0 refuses every request, and needs refuse_all
             */
            limit: number;
            /** @description true together with limit 0 only */
            refuse_all?: boolean;
            /** @description a duration above 0 such as 500ms, 1s or 1m; default 1s */
            per?: string;
            /** Format: int64 */
            burst?: number;
            /** @description all, ip, user, merchant, route, header:<name>, param:<name>, or several joined by + */
            key?: string;
            /** Format: int64 */
            cost?: number;
            max_wait?: string;
            /** Format: int64 */
            queue?: number;
            shadow?: boolean;
            /** @enum {string} */
            where?: "redis" | "local";
            /** @enum {string} */
            on_failure?: "local" | "open" | "closed";
            /** Format: double */
            lease?: number;
            /** @enum {string} */
            inherit?: "as_is" | "in_proportion";
            buckets?: number;
            warm_up?: string;
            /** Format: double */
            cold_factor?: number;
        };
        /**
         * @description Fields of LimitRule; null removes one.
         * @example {
         *       "limit": 500,
         *       "burst": null
         *     }
         */
        LimitPatch: {
            [key: string]: unknown;
        };
        LimitState: {
            name: string;
            /**
             * @description origin of the rule; none: there is no rule and the limit is not in force
             * @enum {string}
             */
            source: "file" | "redis" | "none";
            rule?: components["schemas"]["LimitRule"];
            /**
             * Format: int64
             * @description sum over all processes, since the start of each
             */
            allowed: number;
            /**
             * Format: int64
             * @description allowed after a wait
             */
            waited: number;
            /** Format: int64 */
            refused: number;
            /**
             * Format: int64
             * @description allowed only because the rule is in shadow mode
             */
            shadowed: number;
            /**
             * Format: int64
             * @description refused because Redis was unreachable and the rule fails closed
             */
            failed: number;
            /** @description Callers that are refused now, most refusals first; only in the response for one limit. */
            limited: {
                /** @description the values of the key's components, joined by | */
                key: string;
                /** Format: int64 */
                refused: number;
                /** Format: date-time */
                until: string;
            }[];
        };
        LimitList: {
            items: components["schemas"]["LimitState"][];
            /**
             * Format: int64
             * @description version of the rules in Redis; each change increments it, 0 = no rules
             */
            version: number;
            /** @description number of processes whose counts are included */
            processes: number;
            next_cursor?: string;
        };
        LimitChange: {
            name: string;
            /** Format: int64 */
            version: number;
        };
        LimitKey: {
            /** @description the values of the key's components, joined by |; empty for a rule with the key all */
            key: string;
        };
        LimitDecision: {
            allowed: boolean;
            /** Format: int64 */
            remaining: number;
            /**
             * Format: int64
             * @description seconds until a request would be allowed
             */
            retry_after_s?: number;
        };
    };
    responses: {
        /** @description state_conflict (version): it has another version than If-Match names */
        Stale: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description invalid_request (errors) */
        InvalidRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unauthenticated */
        Unauthenticated: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description forbidden: the token lacks the role, or names no merchant for a new object; another merchant than one's own in merchant_id */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description not_found */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large */
        BodyTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unsupported_media_type */
        UnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description rate_limited (violated_policies) */
        RateLimited: {
            headers: {
                "Retry-After"?: number;
                RateLimit?: string;
                "RateLimit-Policy"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unavailable, or gate_unavailable (version) if the change is not yet in effect at the gate; the outcome may be unknown */
        Unavailable: {
            headers: {
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unavailable: the payment provider or the order service did not respond; repeat the call */
        RefundUndecided: {
            headers: {
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description internal */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        Limit: number;
        Cursor: string;
        /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
        MerchantID: string;
        /** @description the merchant of the profile, that of the token if it is absent; required of an operator whose token names none. 400 if it is malformed, 403 if a merchant names another merchant than their own */
        ProfileOf: string;
        ProductID: string;
        ActivityID: string;
        LimitName: string;
        DeadLetterID: string;
        WebhookID: string;
        /** @description the payment's id */
        RefundID: string;
        /** @description The same key with the same body is the same adjustment for 24 h. The key of a refused call is not kept. */
        IdempotencyKey: string;
        /** @description The same key with the same body returns the object of the first call for 24 h, as it is then. The key of a refused call is not kept. */
        OptionalIdempotencyKey: string;
        /**
         * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
         *     *, the change is made.
         */
        IfMatch: string;
    };
    requestBodies: never;
    headers: {
        /** @description The version in quotes */
        ETag: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listProducts: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["MerchantID"];
                /** @description a part of the product's name, or of a SKU's; capital and small letters are equal, % and _ are ordinary characters */
                q?: string;
                /** @description true: archived products; false, the default: the others */
                archived?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProductList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createProduct: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key with the same body returns the object of the first call for 24 h, as it is then. The key of a refused call is not kept. */
                "Idempotency-Key"?: components["parameters"]["OptionalIdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProduct"];
            };
        };
        responses: {
            /** @description The product */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            /** @description quota_exceeded (limit, used): too many SKUs; idempotency_conflict; state_conflict (ref): another product or SKU of the merchant has the ref */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listCurrencies: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of them */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CurrencyList"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            default: components["responses"]["Failed"];
        };
    };
    getProduct: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The product */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    patchProduct: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProductPatch"];
            };
        };
        responses: {
            /** @description The product */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description quota_exceeded (limit, used): too many SKUs; state_conflict (ref): another product or SKU of the merchant has the ref */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["Stale"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    putProduct: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                ref: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProduct"];
            };
        };
        responses: {
            /** @description The product, which existed */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            /** @description The product, created */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            /** @description quota_exceeded (limit, used): too many SKUs; state_conflict (ref): a SKU of another product has the ref */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description state_conflict (version): other calls change the product at the same time */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    archiveProduct: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The product */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    unarchiveProduct: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                product_id: components["parameters"]["ProductID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The product */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Product"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getProfile: {
        parameters: {
            query?: {
                /** @description the merchant of the profile, that of the token if it is absent; required of an operator whose token names none. 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["ProfileOf"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The profile */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    putProfile: {
        parameters: {
            query?: {
                /** @description the merchant of the profile, that of the token if it is absent; required of an operator whose token names none. 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["ProfileOf"];
            };
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewProfile"];
            };
        };
        responses: {
            /** @description The profile */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Profile"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            412: components["responses"]["Stale"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listActivities: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["MerchantID"];
                state?: components["schemas"]["ActivityState"];
                /** @description a part of the title; capital and small letters are equal, % and _ are ordinary characters */
                q?: string;
                /** @description created, the default: newest first; start: by starts_at and then by id, latest first. A cursor belongs to its sort. */
                sort?: "created" | "start";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createActivity: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key with the same body returns the object of the first call for 24 h, as it is then. The key of a refused call is not kept. */
                "Idempotency-Key"?: components["parameters"]["OptionalIdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewActivity"];
            };
        };
        responses: {
            /** @description The draft */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            /** @description not_found: the draft that an earlier call with this Idempotency-Key created was deleted */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_conflict; state_conflict (ref): another sale of the merchant has the ref */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    deleteActivity: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict (state): it is no draft */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["Stale"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    patchActivity: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ActivityPatch"];
            };
        };
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: a field that cannot change after publication; state_conflict (ref): another sale of the merchant has the ref; activity_ended */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            412: components["responses"]["Stale"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    duplicateActivity: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key with the same body returns the object of the first call for 24 h, as it is then. The key of a refused call is not kept. */
                "Idempotency-Key"?: components["parameters"]["OptionalIdempotencyKey"];
            };
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: all its units were withdrawn; idempotency_conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    publishActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description activity_ended; state_conflict: paused; quota_exceeded (limit, used) */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    pauseActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description activity_ended; state_conflict: a draft */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    resumeActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description activity_ended; state_conflict: a draft */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    endActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Activity"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: a draft */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    adjustStock: {
        parameters: {
            query?: never;
            header: {
                /** @description The same key with the same body is the same adjustment for 24 h. The key of a refused call is not kept. */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
            };
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewAdjustment"];
            };
        };
        responses: {
            /** @description Applied */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Adjustment"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description insufficient_stock; idempotency_conflict; activity_ended; state_conflict: a draft */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getStock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stock */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StockView"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listChanges: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listAdjustments: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdjustmentList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getBoard: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The board */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Board"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    streamBoard: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listReconciliations: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReconciliationList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    reconcile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The repairs and the remaining differences */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reconciliation"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listActivityOrders: {
        parameters: {
            query?: {
                /** @description at most 100 without changed_since */
                limit?: number;
                cursor?: components["parameters"]["Cursor"];
                /** @description only rows that changed at this time or later, oldest change first */
                changed_since?: string;
                user_id?: string;
                order_sn?: string;
                /**
                 * @description State of the reservation, or of its order as far as the ledger knows it: pending (reserved, with an order), paid
                 *     (sold), closed or refunded (released, by its reason)
                 */
                state?: "pending" | "paid" | "closed" | "refunded" | "reserved" | "sold" | "released" | "rejected";
                /** @description csv is the same as Accept text/csv; it comes before Accept */
                format?: "json" | "csv";
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, or the whole list as CSV; an OrderFeed with changed_since */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HoldingList"] | components["schemas"]["OrderFeed"];
                    /**
                     * @example order_sn,user_id,lines,skus,state,reason,reserved_at,order_created_at,expires_at,changed_at,order_state,amount,currency,contact_name,contact_phone,contact_address,activity_ref,sku_refs
                     *     '244837465837465837,42,1x1,black x1,reserved,,2026-11-21T10:00:01.250Z,2026-11-21T10:00:01.280Z,2026-11-21T10:15:01.280Z,2026-11-21T10:00:01.300Z,pending,99.00,EUR,Li Lei,'+8613812345678,"1 Renmin Road, Shanghai 200001",AUTUMN,PHONE-7-BLACKx1
                     */
                    "text/csv": string;
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listOrders: {
        parameters: {
            query: {
                changed_since: string;
                limit?: number;
                cursor?: components["parameters"]["Cursor"];
                /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["MerchantID"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderFeed"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getActivityOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                order_sn: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityOrder"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getAbuse: {
        parameters: {
            query?: {
                /** @description csv is the same as Accept text/csv; it comes before Accept */
                format?: "json" | "csv";
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description At most 200 addresses and 200 users */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Abuse"];
                    /**
                     * @example kind,subject,early,rate_limited,failed_challenges,voided_paths,expired_holds,cancelled_holds,purchases,causes
                     *     address,2001:db8:1:2::/64,0,940,3,0,,,,
                     *     user,42,12,310,0,0,2,1,1,early rate_limited ended_holds
                     */
                    "text/csv": string;
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listReview: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReviewList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    cancelReviewed: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CancelRequest"];
            };
        };
        responses: {
            /** @description The outcome for each order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CancelResults"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getOverview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The overview */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Overview"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The processes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listWebhooks: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["MerchantID"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewWebhook"];
            };
        };
        responses: {
            /** @description The webhook */
            201: {
                headers: {
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookSecret"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            /** @description quota_exceeded (limit, used): the merchant has five; state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    deleteWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    patchWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookPatch"];
            };
        };
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    replaceWebhookSecret: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookSecret"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    testWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The outcome; without error the event was delivered */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookTest"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    replayWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookReplay"];
            };
        };
        responses: {
            /** @description The webhook; the events follow */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: it is not active; the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listDeliveries: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                /** @description default waiting */
                state?: "waiting" | "delivered" | "failed";
            };
            header?: never;
            path: {
                webhook_id: components["parameters"]["WebhookID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the operator has not enabled webhooks */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listDeadLetters: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
                /** @description only objects of this merchant; 400 if it is malformed, 403 if a merchant names another merchant than their own */
                merchant_id?: components["parameters"]["MerchantID"];
                /** @description default open */
                state?: "open" | "replayed" | "rejected" | "all";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    replayDeadLetter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dead_letter_id: components["parameters"]["DeadLetterID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dead letter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetter"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: rejected, or its rejection has begun */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    rejectDeadLetter: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dead_letter_id: components["parameters"]["DeadLetterID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The dead letter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetter"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the order exists and can still be paid */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listRefunds: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RefundList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    retryRefund: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the payment's id */
                refund_id: components["parameters"]["RefundID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The refund */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Refund"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["RefundUndecided"];
            default: components["responses"]["Failed"];
        };
    };
    settleRefund: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the payment's id */
                refund_id: components["parameters"]["RefundID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RefundSettlement"];
            };
        };
        responses: {
            /** @description The refund */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Refund"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: the refund is still attempted, its provider has made it, or it was settled under another reference */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["RefundUndecided"];
            default: components["responses"]["Failed"];
        };
    };
    listPaymentDifferences: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PaymentDifferenceList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listLimits: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getLimit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The limit */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitState"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    putLimit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LimitRule"];
            };
        };
        responses: {
            /** @description The rule is stored */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitChange"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            412: components["responses"]["Stale"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    deleteLimit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The limit is disabled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitChange"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    patchLimit: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A version in quotes, as in ETag. The change is refused with 412 if the version is another one. Without it, or with
                 *     *, the change is made.
                 */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LimitPatch"];
            };
        };
        responses: {
            /** @description The rule is stored */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitChange"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            412: components["responses"]["Stale"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listLimitChanges: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    revertLimit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stored change is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitChange"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    tryLimit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                limit_name: components["parameters"]["LimitName"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LimitKey"];
            };
        };
        responses: {
            /** @description The decision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LimitDecision"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description state_conflict: each process has its own counts, or the limit is on concurrent requests */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
}
