//! Queueing copies. Addresses are unified: the address itself determines the kind of memory.

use std::sync::Arc;

use crate::driver::instance::Instance;
use crate::driver::objects::graph::payload::Payload;
use crate::driver::objects::space::Spaces;
use crate::driver::objects::stream::Stream;
use crate::driver::objects::transfer::{Extent, Mode, Side, Transfer, transfer};
use crate::driver::status::{INVALID_VALUE, Status};

impl Instance {
    pub(in crate::driver) fn copy(
        &self,
        stream: &Stream,
        dst: Side,
        src: Side,
        extent: Extent,
        mode: Mode,
    ) -> Status {
        let mut all = Transfer { dst, src, extent };
        if all.is_empty() {
            return Ok(());
        }
        let spaces = self.spaces();
        all.check(&spaces)?;
        let Transfer { dst, src, .. } = all;
        if mode == Mode::Blocking {
            self.no_capture_on(stream)?;
        } else if self.captured(stream, || {
            let params = all.params(&spaces);
            Ok(Payload::copy(params, all, &stream.context))
        })? {
            return Ok(());
        }
        let late = self.config.late_pageable;
        let wait = match mode {
            Mode::Blocking => {
                !(spaces.is_device(dst.addr) && spaces.is_device(src.addr))
                    || [dst.addr, src.addr].iter().any(|it| self.synchronizes(*it))
            }
            Mode::Queued => !dst.is_known && !late,
        };
        if wait {
            return self.run(stream, move || all.run(&spaces));
        }
        if src.is_known || late {
            self.enqueue(stream, &[], move || all.run(&spaces));
            return Ok(());
        }
        // Pageable source: the bytes are read now and written when the copy runs in stream order.
        let mut rows: Vec<u8> = Vec::new();
        for (y, z) in extent.rows() {
            let row = spaces.read((src.row(y, z), false), extent.width);
            rows.extend(row.map_err(|_| INVALID_VALUE)?);
        }
        self.enqueue(stream, &[], move || {
            transfer(&spaces, dst, Side::staged(&rows, extent), extent)
        });
        Ok(())
    }

    pub(in crate::driver) fn spaces(&self) -> Spaces {
        Spaces::new(
            Arc::clone(&self.devices),
            Arc::clone(&self.virtual_memory),
            Arc::clone(&self.arrays),
        )
    }
}
