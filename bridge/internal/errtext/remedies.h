/* remedies.h: the ways out that texts of errors name, in three languages: REMEDY(Go, C, Python).
 *
 * A text is written once, and names functions of the language that it is written in. When the error passes to C or to Python, InC and
 * InPython of this package, and in_python of the Python extension, replace them by those of the caller's language. The rows are tried in
 * this order, so a longer text stands before one that is a part of it. In the whole text of an error a way out is a clause behind a
 * semicolon, which WithoutRemedies leaves out. */
REMEDY("Read reads it, Copy makes", "dlb_tensor_copy makes", "copy() makes")
REMEDY("Copy makes", "dlb_tensor_copy makes", "copy() makes")
REMEDY("Copy aligns", "dlb_tensor_copy aligns", "copy() aligns")
REMEDY("Tensor.Copy copies it", "dlb_tensor_copy copies it", "tvm_ffi.from_dlpack makes one that can be kept")
REMEDY("the source with Copy first", "the source with dlb_tensor_copy first", "the source with copy() first")
REMEDY("scale a Copy of it", "scale what dlb_tensor_copy makes of it", "scale a copy() of it")
REMEDY("ExportCopy exports a copy", "dlb_tensor_copy makes a copy that can be exported", "copy() makes a copy that can be exported")
REMEDY("Export can", "the form of DLPack 1.0 can", "the form of DLPack 1.0 can")
REMEDY("Align makes an aligned copy, zeromq.Aligned() receives aligned tensors", "dlb_tensor_copy makes an aligned copy", "copy() makes an aligned copy")
REMEDY("Align makes", "dlb_tensor_copy makes", "copy() makes")
REMEDY("Align copies it", "dlb_tensor_copy aligns it", "copy() aligns it")
REMEDY("use dlpack.New or Tensor.Align to get aligned memory", "use dlb_tensor_copy to get aligned memory", "use copy() to get aligned memory")
REMEDY("Contiguous(RowMajor) puts them side by side, and All or the faster loop in the documentation of Strided reads them in place",
       "dlb_tensor_contiguous puts them side by side", "contiguous() or numpy.ascontiguousarray puts them side by side")
REMEDY("Contiguous(RowMajor) makes them row-major, AllowTransposed accepts them as they are",
       "dlb_tensor_contiguous makes them row-major", "contiguous() or numpy.ascontiguousarray makes them row-major")
REMEDY("Contiguous(RowMajor) makes", "dlb_tensor_contiguous makes", "contiguous() or numpy.ascontiguousarray makes")
REMEDY("Contiguous makes", "dlb_tensor_contiguous makes", "contiguous() or numpy.ascontiguousarray makes")
REMEDY("Convert or Bitcast makes", "dlb_tensor_convert makes", "astype() makes")
REMEDY("Convert makes", "dlb_tensor_convert makes", "astype() makes")
REMEDY("ConvertTo converts", "dlb_tensor_convert converts", "astype() converts")
REMEDY("Bitcast to uint8, then Convert to bool, turns it into true", "as uint8, dlb_tensor_convert to bool turns it into true",
       "as uint8, astype(\"bool\") turns it into true")
REMEDY("CopyTo copies them to a padded tensor in another order", "dlb_tensor_copy_into copies them to a padded tensor in another order",
       "an assignment copies them to a padded tensor in another order")
REMEDY("View shows them as another type", "dlb_tensor_import takes a description of another type",
       "from_buffer() shows their bytes as another type")
REMEDY("View makes its lanes a dimension", "dlb_tensor_import takes a description in which its lanes are a dimension",
       "from_buffer() makes its lanes a dimension")
REMEDY("use AsBytes to view", "use dlb_tensor_import to view", "use from_buffer() to view")
REMEDY("AssumeWritable imports it as writable", "dlb_tensor_copy makes a writable one", "copy() makes a writable one")

REMEDY("Relay keeps", "fields->relay keeps", "relay= keeps")
REMEDY("DecodeFrames splits", "dlb_message_decode_packed splits", "decode_frames() splits")
REMEDY("DecodeAll reads several", "dlb_message_decode_next reads several", "decode_all() reads several")
REMEDY("DecodeAll decodes several", "the function that ends in _batch decodes several", "decode_all() decodes several")
REMEDY("AppendElements encodes them", "dlb_elements hold them", "Elements hold them")
REMEDY("AppendTensor encodes them", "a tensor holds them", "a Tensor holds them")
REMEDY("Decode returns its Elements", "the decoder with dlb_elements returns it", "decode_elements() returns it")
REMEDY("the option Integers makes", "DLB_TENSORFLOW_INTEGERS makes", "integers= makes")
REMEDY("the option In selects", "a dialect among the options selects", "dialect= selects")
REMEDY("Limit allows more", "DLB_LIMIT allows more", "limit= allows more")
REMEDY("tensors that share a part alias it without Align", "tensors that share a part can alias it",
       "tensors that share a part can alias it")
REMEDY("Join copies them", "joining copies them", "join=True copies them")
REMEDY("OpenSet opens", "DLB_FILE_SET opens", "index=True opens")
REMEDY("InFormat chooses", "fields->format chooses", "format= chooses")
REMEDY("without Join each piece aliases its part", "without joining each piece aliases its part", "without join=True each piece aliases its part")

REMEDY("use Keep to accept it", "pass it without moving it", "pass it without moving it")
REMEDY("call Load first", "import tvm_ffi first", "import tvm_ffi first")
REMEDY("call LoadRuntime first", "import tvm first", "import tvm first")
REMEDY("Function.Call lists the types that can be passed", "the function must use another type", "the function must use another type")
REMEDY("UnsafeConstant passes it", "the function can pass it", "the function can pass it")
